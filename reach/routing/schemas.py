"""What a router knows of schemas and types: who reads a body of which schema, and which side of a canary a conversation is on."""

import hashlib
from collections.abc import Iterable

from reach.envelope.families import Family
from reach.envelope.registration import Canary
from reach.envelope.rules import BUILT_IN_TYPES
from reach.routing.agents import Agent
from reach.routing.message import Message

NOBODY: frozenset[str] = frozenset()


class SchemaSets:
    """Schema -> the other schemas that read it, by the families of the env."""

    def __init__(self) -> None:
        self._families: dict[str, dict[str, frozenset[str]]] = {}
        self._readers: dict[str, frozenset[str]] = {}

    def clear(self) -> None:
        """Forget all."""
        self._families.clear()
        self._readers.clear()

    def set(self, name: str, family: Family | None) -> None:
        """Take the record of a family; None: there is none any more."""
        for schema in self._families.pop(name, ()):
            self._readers.pop(schema, None)
        if family is not None:
            readers = self._families[name] = family.readers()
            self._readers |= readers

    def readers(self, schema: str | None) -> frozenset[str]:
        """The other schemas whose readers may get a body of this one."""
        return self._readers.get(schema, NOBODY) if schema is not None else NOBODY

    def read_by(self, own: Iterable[str]) -> dict[str, list[str]]:
        """Of these schemas: the other ones that they read -> by which of them."""
        mine = frozenset(own)
        return {
            schema: sorted(readers & mine)
            for schema, readers in sorted(self._readers.items())
            if schema not in mine and readers & mine
        }


class TypeNames:
    """The message types of an env: built in, written down by an admin or with a registration, and what the agents accept now."""

    def __init__(self) -> None:
        self._written: set[str] = set()
        self._accepted: dict[str, int] = {}

    def load(self, written: Iterable[str]) -> None:
        """Start anew, with those that are written down."""
        self._written = set(written)
        self._accepted.clear()

    def write(self, name: str, *, there: bool) -> None:
        """One was written down, or taken out."""
        (self._written.add if there else self._written.discard)(name)

    def accept(self, names: Iterable[str], by: int) -> None:
        """`by` 1: one more agent accepts them; -1: one less."""
        for name in names:
            count = self._accepted.get(name, 0) + by
            if count > 0:
                self._accepted[name] = count
            else:
                self._accepted.pop(name, None)

    def __contains__(self, name: object) -> bool:
        return name in BUILT_IN_TYPES or name in self._written or name in self._accepted

    def __len__(self) -> int:
        return len(self.all())

    def all(self) -> frozenset[str]:
        """Every one of them."""
        return BUILT_IN_TYPES.union(self._written, self._accepted)


def which_reads(agent: Agent, message: Message, readers: frozenset[str]) -> str:
    """The schema by which an agent takes a message whose own schema it does not name; "" = it names that, takes any, or takes it not."""
    schemas = agent.accepts.get(message.type)
    if not readers or schemas is None or message.schema is None or message.schema in schemas:
        return ""
    return min(schemas & readers, default="", key=lambda name: (len(name), name))


def has_schema(agent: Agent, message: Message, schema: str) -> bool:
    """Whether an agent names this schema for messages of this type; one that takes any does not."""
    schemas: frozenset[str] | None = agent.accepts.get(message.type)
    return schemas is not None and schema in schemas


def in_canary(canary: Canary, message: Message) -> bool:
    """Whether this conversation is of the share. The same on every router, and for every message of the conversation."""
    text = f"{canary.schema}\n{message.pattern.text}\n{message.conversation}"
    drawn = int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
    return drawn < canary.share * 2**64
