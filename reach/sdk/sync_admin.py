"""Policies, rules, schemas and dead letters for programs without an event loop: the same calls, which wait."""

from collections.abc import Iterable, Mapping
from typing import Any

from reach.delivery.dead_letters import DeadLetter, DeadLetters, Requeued
from reach.envelope.call_rule import CallRule
from reach.envelope.families import Family
from reach.envelope.json_schema import Schema
from reach.envelope.message import Envelope
from reach.envelope.registration import RoutePolicy
from reach.registry.call_rules import Permits, RuleEntry, Rules
from reach.registry.routes import Route, Routes
from reach.registry.schemas import Checked, Schemas
from reach.routing.explain import Explanation
from reach.sdk.client import Reach
from reach.sdk.loop_thread import LoopThread


class SyncRoutes:
    """`Routes`, which waits. Arguments and errors as there."""

    def __init__(self, thread: LoopThread[Reach], routes: Routes) -> None:
        self._thread, self._routes = thread, routes

    def list(self) -> list[Route]:
        """All policies, by pattern in order."""
        return self._thread.call(self._routes.list)

    def set(self, pattern: str, policy: bytes | Mapping[str, Any]) -> RoutePolicy:
        """Give a pattern its policy."""
        return self._thread.call(lambda: self._routes.set(pattern, policy))

    def remove(self, pattern: str) -> bool:
        """Go by the default again. False: it had none."""
        return self._thread.call(lambda: self._routes.remove(pattern))

    def explain(
        self, envelope: Envelope, *, partition: int | None = None, draws: int = 1, replies_to: str = ""
    ) -> Explanation:
        """Where an envelope would go now; nothing is sent."""
        return self._thread.call(
            lambda: self._routes.explain(envelope, partition=partition, draws=draws, replies_to=replies_to)
        )


class SyncRules:
    """`Rules`, which waits. Arguments and errors as there."""

    def __init__(self, thread: LoopThread[Reach], rules: Rules) -> None:
        self._thread, self._rules = thread, rules

    def list(self) -> list[RuleEntry]:
        """All rules, by name in order."""
        return self._thread.call(self._rules.list)

    def set(self, name: str, rule: bytes | Mapping[str, Any]) -> CallRule:
        """Give the env a rule."""
        return self._thread.call(lambda: self._rules.set(name, rule))

    def remove(self, name: str) -> bool:
        """Take a rule away. False: there is none of this name."""
        return self._thread.call(lambda: self._rules.remove(name))

    def test(self, source: str, pattern: str, *, name: str = "", type: str = "request") -> Permits:
        """What a source may call of those that answer a pattern."""
        return self._thread.call(lambda: self._rules.test(source, pattern, name=name, type=type))


class SyncSchemas:
    """`Schemas`, which waits. Arguments and errors as there."""

    def __init__(self, thread: LoopThread[Reach], schemas: Schemas) -> None:
        self._thread, self._schemas = thread, schemas

    def list(self) -> dict[str, Family]:
        """Every family, by name in order."""
        return self._thread.call(self._schemas.list)

    def get(self, name: str) -> Schema | None:
        """The JSON Schema of this name, None = there is none."""
        return self._thread.call(lambda: self._schemas.get(name))

    def check(self, name: str, schema: bytes | Schema) -> Checked:
        """What would come of storing it. Nothing is stored."""
        return self._thread.call(lambda: self._schemas.check(name, schema))

    def set(self, name: str, schema: bytes | Schema) -> bool:
        """Store a schema. False: what is stored means the same, and stays."""
        return self._thread.call(lambda: self._schemas.set(name, schema))

    def remove(self, name: str) -> bool:
        """Forget a schema. False: there is none."""
        return self._thread.call(lambda: self._schemas.remove(name))

    def set_compatibility(self, family: str, compatibility: str) -> None:
        """Say what new versions of a family must be to the ones beside them."""
        self._thread.call(lambda: self._schemas.set_compatibility(family, compatibility))


class SyncDeadLetters:
    """`DeadLetters`, which waits. Arguments and errors as there."""

    def __init__(self, thread: LoopThread[Reach], letters: DeadLetters) -> None:
        self._thread, self._letters = thread, letters

    def list(self, max_entries: int = 1_000) -> list[DeadLetter]:
        """The letters, partition by partition, the oldest of each first."""

        async def read() -> list[DeadLetter]:
            return [letter async for letter in self._letters.list(max_entries)]

        return self._thread.call(read)

    def find(self, name: str) -> DeadLetter | None:
        """The letter with this entry id or of this message (the latest); None where there is none."""
        return self._thread.call(lambda: self._letters.find(name))

    def requeue(self, letter: DeadLetter, *, target: str | None = None) -> Requeued:
        """Send it once more, with new deadlines and all its attempts."""
        return self._thread.call(lambda: self._letters.requeue(letter, target=target))

    def purge(self, letters: Iterable[DeadLetter]) -> int:
        """Delete them for good; how many there were."""
        return self._thread.call(lambda: self._letters.purge(letters))
