"""`target.pattern`: what a sender may ask for, parsed (PROTOCOL, section 6). Its grammar is in `reach.envelope.rules`."""

from typing import Literal, Protocol, cast

import msgspec

from reach import ids
from reach.envelope import rules

Kind = Literal["agent_id", "capability", "group", "intent"]


class Term(msgspec.Struct, frozen=True):
    """One capability that is asked for. `prefix`: any capability below `name` (`a.*` means `a.b` and `a.b.c`, never `a`)."""

    name: str
    prefix: bool = False

    def matches(self, capability: str) -> bool:
        """Whether this capability answers the term."""
        if self.prefix:
            return capability.startswith(self.name + ".")
        return capability == self.name


class Pattern(msgspec.Struct, frozen=True):
    """A parsed pattern. `name` is the agent_id, group or intent; `terms` are the capabilities, all of which one agent must have."""

    text: str
    kind: Kind
    name: str = ""
    terms: tuple[Term, ...] = ()


def parse(text: str) -> Pattern:
    """Read a pattern.

    Raises:
        EnvelopeError: `target.bad_pattern`, as the rules of the envelope say it.
    """
    rules.check_pattern(text)
    kind, _, rest = text.partition(":")
    if kind == "capability":
        return Pattern(text, "capability", terms=tuple(dict.fromkeys(map(_term, rest.split("+")))))
    return Pattern(text, cast("Kind", kind), name=rest.strip())


class KnownNames(Protocol):
    """What must be known to read a bare name: the index, or anything that can say which agents exist."""

    def has_agent(self, agent_id: str) -> bool:
        """Whether an agent of this id is registered."""
        ...


def resolve_bare(name: str, known: KnownNames) -> Pattern:
    """Read a pattern, or a bare name as people type it: an agent_id where there is such an agent, else a capability.

    Raises:
        EnvelopeError: `target.bad_pattern`: neither a pattern nor a name that could be one of the two.
    """
    if ":" in name:
        return parse(name)
    if ids.is_name(name) and (known.has_agent(name) or not ids.is_token(name)):
        return parse(f"agent_id:{name}")
    return parse(f"capability:{name}")


def _term(text: str) -> Term:
    name = text.removesuffix(".*")
    return Term(name, prefix=name != text)
