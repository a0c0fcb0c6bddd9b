"""The policies of an env, for admins: list, set and remove them, and ask where a message would go now."""

import asyncio
from random import Random
from typing import TYPE_CHECKING

import msgspec

from reach.backend.port import Backend
from reach.envelope.message import Scope
from reach.envelope.records import decode_policy
from reach.envelope.registration import MAX_CAPABILITIES, RoutePolicy
from reach.errors import RecordError
from reach.routing.decide import Chooser, decide
from reach.routing.index import CapabilityIndex
from reach.routing.intents import Ranked
from reach.routing.message import Message
from reach.routing.pattern import parse
from reach.routing.policies import read_policy
from reach.routing.steps import Choice
from reach.routing.strategies import Memory, strategy_for

if TYPE_CHECKING:
    from reach.routing.meanings import Meanings

#: As a message that says nothing else has them.
TOTAL_MS, NETWORK_MS = 30_000, 3_000


class Route(msgspec.Struct, frozen=True):
    """One policy. `problem`: why routers cannot read it, and go by the default instead; "" = they can."""

    pattern: str
    policy: bytes
    problem: str = ""


class Trial(msgspec.Struct, frozen=True):
    """Where a message would go now, and why. Nothing was sent.

    Attributes:
        pattern: What was asked for.
        policy: What the env says of it.
        strategy: Which one chooses.
        choice: The decision, with every candidate, who refused it and why, and what it weighed in the draw.
        ranked: Of an intent: the capabilities that come nearest, best first.
    """

    pattern: str
    policy: RoutePolicy
    strategy: str
    choice: Choice
    ranked: tuple[Ranked, ...] = ()


class Routes:
    """The policies of the env of a backend. `rng`: of the draws of `test`; `model`: what its routers rank free texts with."""

    def __init__(self, backend: Backend, rng: Random | None = None, model: "Meanings | None" = None) -> None:
        self._backend, self._model = backend, model
        self._rng = rng or Random()  # noqa: S311 - chance for choosing, no secret

    async def list(self) -> list[Route]:
        """All of them, by pattern in order, also those that nobody can read.

        Raises:
            BackendError: They cannot be read.
        """
        snapshot = await self._backend.snapshot()
        return [Route(pattern, policy, _problem(policy)) for pattern, policy in sorted(snapshot.routes.items())]

    async def set(self, pattern: str, policy: bytes) -> RoutePolicy:
        """Give a pattern its policy (JSON), in place of the one that it has. Every router follows it within 100 ms.

        Raises:
            ConfigError: It cannot be used, `details["problems"]`; nothing has changed.
            BackendError: It could not be written.
        """
        read = read_policy(pattern, policy)
        await self._backend.set_meta("routes", pattern, policy)
        return read

    async def remove(self, pattern: str) -> bool:
        """Go by the default again. False: it had none.

        Raises:
            BackendError: It could not be done.
        """
        known = (await self._backend.snapshot()).routes
        if pattern not in known:
            return False
        await self._backend.set_meta("routes", pattern, None)
        return True

    async def test(
        self,
        pattern: str,
        *,
        scope: Scope = "one",
        type: str = "request",
        schema: str | None = None,
        sender: str = "",
        hops: frozenset[str] = frozenset(),
        tier: str | None = None,
        zone: str | None = None,
        conversation: str = "",
        order_key: str = "",
    ) -> Trial:
        """Decide as a router would now, about a message that comes for the first time; nothing is sent.

        Args:
            pattern: The target, as senders write it.
            scope: One of those who fit, or all.
            type: Of the message.
            schema: Of its body.
            sender: Whose message it answers, if it is an answer.
            hops: The agents that the conversation went through.
            tier: That it needs.
            zone: Of the sender.
            conversation: What `sticky` goes by.
            order_key: The same.

        Raises:
            EnvelopeError: The pattern is none.
            BackendError: The registry cannot be read.
        """
        index, now_ms = await read_index(self._backend, self._model)
        message = Message(
            pattern=parse(pattern),
            scope=scope,
            type=type,
            schema=schema,
            env=self._backend.env,
            zone=zone,
            tier=tier,
            order_key=order_key,
            conversation=conversation,
            hops=hops,
            replies_to=sender,
            start_at_ms=now_ms,
            first_at_ms=now_ms + TOTAL_MS,
            total_at_ms=now_ms + TOTAL_MS,
            network_ms=NETWORK_MS,
        )
        policy = index.policy(pattern)
        choice = decide(message, None, Chooser(index=index, rng=self._rng, memory=Memory(), whole=True), now_ms)
        ranked = tuple(index.ranked(message.pattern.name)) if message.pattern.kind == "intent" else ()
        return Trial(pattern, policy, strategy_for(scope, policy.strategy), choice, ranked)


async def read_index(backend: Backend, model: "Meanings | None" = None) -> tuple[CapabilityIndex, int]:
    """The registry as it is now, and the moment, by the clock of the backend.

    Raises:
        BackendError: It cannot be read.
    """
    snapshot = await backend.snapshot()
    now_ms, beats = await backend.last_beats(0)
    index = CapabilityIndex(model=model)
    index.load(
        snapshot.agents,
        snapshot.routes,
        snapshot.types,
        snapshot.meta,
        snapshot.circuits,
        snapshot.rules,
        snapshot.families,
    )
    for last in beats:
        index.beat(last.agent_id, last.instance_id, last.at_ms, last.beat)
    if model is not None:
        index.read_intents(len(index.agents) * MAX_CAPABILITIES)
        await asyncio.to_thread(model.read_all)
    return index, now_ms


def _problem(policy: bytes) -> str:
    try:
        decode_policy(policy)
    except RecordError as error:
        return error.message
    return ""
