"""Who may call whom in an env, for admins: list, set and remove the rules, and ask what one source may call."""

from collections.abc import Mapping
from typing import Any

import msgspec

from reach.backend.port import Backend
from reach.envelope.call_rule import CallRule
from reach.errors import ConfigError
from reach.registry.routes import read_index
from reach.registry.writing import as_json
from reach.routing.access import read
from reach.routing.call_rules import read_call_rule
from reach.routing.pattern import resolve_bare

_LOST = "the key of the rules holds something else, so nothing is allowed until a rule is set"


class RuleEntry(msgspec.Struct, frozen=True):
    """One rule as stored. `problem`: why it cannot be read, so that it denies what can be read of it; "" = it can."""

    name: str
    rule: bytes
    problem: str = ""


class Permit(msgspec.Struct, frozen=True):
    """Whether an agent may be called. `reason`: which rule denies it, or that none allows it; "" = it may."""

    agent: str
    allowed: bool
    reason: str = ""


class Permits(msgspec.Struct, frozen=True):
    """What a source may call of those that answer a pattern. `closed`: nothing is allowed without a rule."""

    source: str
    pattern: str
    closed: bool
    agents: tuple[Permit, ...]

    @property
    def allowed(self) -> bool:
        """Whether it may call any of them."""
        return any(one.allowed for one in self.agents)


class Rules:
    """The rules of the env of a backend: who may call whom."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def list(self) -> list[RuleEntry]:
        """All of them, by name in order, also those that nobody can read.

        Raises:
            ConfigError: What the key holds is no table of rules; nothing is allowed until one is set.
            BackendError: They cannot be read.
        """
        stored = (await self._backend.snapshot()).rules
        if stored is None:
            raise ConfigError(_LOST)
        return [RuleEntry(name, rule, read(name, rule).problem) for name, rule in sorted(stored.items())]

    async def set(self, name: str, rule: bytes | Mapping[str, Any]) -> CallRule:
        """Give the env a rule (JSON, or what becomes it), in place of the one of this name. Every router follows it within 100 ms.

        Raises:
            ConfigError: It cannot be used, `details["problems"]`; nothing has changed.
            BackendError: It could not be written.
        """
        data = rule if isinstance(rule, bytes) else as_json(rule)
        said = read_call_rule(name, data)
        await self._backend.set_meta("rules", name, data)
        return said

    async def remove(self, name: str) -> bool:
        """Take a rule away, also one that nobody can read. False: there is none of this name.

        Raises:
            BackendError: It could not be done.
        """
        if name not in ((await self._backend.snapshot()).rules or {}):
            return False
        await self._backend.set_meta("rules", name, None)
        return True

    async def test(self, source: str, pattern: str, *, name: str = "", type: str = "request") -> Permits:
        """What a source may call now, of those that answer a pattern. Nothing is sent.

        Args:
            source: The agent_id of the sender.
            pattern: The target, as senders write it; also a bare name.
            name: The name of all replicas of the sender, if it has one.
            type: Of the message.

        Raises:
            EnvelopeError: The pattern is none.
            BackendError: The registry cannot be read.
        """
        index, _ = await read_index(self._backend)
        parsed = resolve_bare(pattern, index)
        caller = index.caller(source, name)
        found = [
            (agent.agent_id, caller.refusal(agent, parsed, type) if caller is not None else None)
            for agent in index.match(parsed)
        ]
        permits = tuple(Permit(agent_id, reason is None, reason or "") for agent_id, reason in found)
        return Permits(source, parsed.text, index.access.closed, permits)
