"""The policies of an env, for admins: list, set and remove them, and ask where a message would go now."""

import asyncio
from collections.abc import Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec

from reach.backend.port import Backend
from reach.envelope.message import Envelope
from reach.envelope.problems import sentence_of
from reach.envelope.registration import MAX_CAPABILITIES, RoutePolicy
from reach.envelope.rules import partition_of, sender_of, stamp_of
from reach.errors import ConfigError
from reach.registry.filling import fill
from reach.registry.swapping import swap
from reach.registry.writing import as_json
from reach.routing.explain import Explanation, explain
from reach.routing.index import CapabilityIndex
from reach.routing.pattern import resolve_bare
from reach.routing.policies import problems_with, read_policy

if TYPE_CHECKING:
    from reach.routing.meanings import Meanings

MAX_DRAWS = 100_000
FRESH_EYES = "fresh_eyes"


class Route(msgspec.Struct, frozen=True):
    """One policy. `problem`: all that is wrong with it, as somebody wrote it by hand; "" = nothing.

    Routers go by the default where they cannot read a policy; a strategy that they do not have, or a fallback that is no pattern, they
    leave out.
    """

    pattern: str
    policy: bytes
    problem: str = ""


class Routes:
    """The policies of the env of a backend. `rng`: of the draws of `test`; `model`: what its routers rank free texts with."""

    def __init__(self, backend: Backend, rng: Random | None = None, model: "Meanings | None" = None) -> None:
        self._backend, self._model = backend, model
        self._rng = rng or Random()  # noqa: S311 - chance for choosing, no secret

    async def list(self) -> list[Route]:
        """All of them, by pattern in order, also those that could not be set.

        Raises:
            BackendError: They cannot be read.
        """
        snapshot = await self._backend.snapshot()
        known = snapshot.routes
        return [
            Route(pattern, policy, sentence_of(problems_with(pattern, policy, known)))
            for pattern, policy in sorted(known.items())
        ]

    async def set(self, pattern: str, policy: bytes | Mapping[str, Any]) -> RoutePolicy:
        """Give a pattern its policy (JSON, or what becomes it), in place of the one that it has. Every router follows it within 100 ms.

        Raises:
            ConfigError: It cannot be used, `details["problems"]`; nothing has changed.
            BackendError: It could not be written.
        """
        data = policy if isinstance(policy, bytes) else as_json(policy)

        async def change() -> tuple[bytes | None, bytes, tuple[RoutePolicy, bytes | None]]:
            known = (await self._backend.snapshot()).routes
            before = known.get(pattern)
            return before, data, (read_policy(pattern, data, known), before)

        read, before = await swap(self._backend, "routes", pattern, f"the policy of {pattern[:128]!r}", change)
        await self._refuse_circle(pattern, data, before)
        return read

    async def _refuse_circle(self, pattern: str, data: bytes, before: bytes | None) -> None:
        """Take a policy back whose fallback goes round with one that somebody else has set meanwhile. Raises ConfigError."""
        try:
            read_policy(pattern, data, (await self._backend.snapshot()).routes)
        except ConfigError:
            await self._backend.swap_meta("routes", pattern, before, data)
            raise

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

    async def explain(
        self,
        envelope: Envelope,
        *,
        partition: int | None = None,
        draws: int = 1,
        replies_to: str = "",
    ) -> Explanation:
        """Decide as a router would now, about a message that comes for the first time; nothing is sent.

        What only the step itself knows is not seen: a full inbox, a rate limit that is used up, a budget, an open message of the same id.

        Args:
            envelope: As it would be sent; its target may also be a bare name.
            partition: In which it would lie; None: its order_key says, else 0.
            draws: How often to draw, for the shares of the candidates.
            replies_to: The sender of the message that it answers, if it answers one that its own sender has had.

        Raises:
            EnvelopeError: It breaks a rule; a sender would be told so at once.
            ValueError: There is no such partition, or no draw.
            BackendError: The registry cannot be read.
        """
        partitions = self._backend.partitions
        if partition is None:
            partition = partition_of("", envelope.order_key, partitions) if envelope.order_key is not None else 0
        if not 0 <= partition < partitions:
            raise ValueError(f"partition is {partition}: the env has 0 to {partitions - 1}")
        if not 1 <= draws <= MAX_DRAWS:
            raise ValueError(f"draws is {draws}: 1 to {MAX_DRAWS} is wanted")
        index, now_ms = await read_index(self._backend, self._model)
        met = await self._met(envelope, index)
        # Many draws take seconds, and the loop may be one that serves: the index is this call's own.
        return await asyncio.to_thread(
            explain,
            envelope,
            index,
            env=self._backend.env,
            partition=partition,
            now_ms=now_ms,
            rng=self._rng,
            draws=draws,
            replies_to=replies_to,
            was_asked=bool(replies_to),
            met=met,
        )

    async def _met(self, envelope: Envelope, index: CapabilityIndex) -> Sequence[tuple[str, str, int]]:
        """Whom the sender has met, where the policy goes by that: conversation ("" = another one), agent, when."""
        pattern = resolve_bare(envelope.target.pattern, index).text
        if envelope.target.scope != "one" or index.policy(pattern).strategy != FRESH_EYES:
            return []
        conversation = envelope.conversation
        (known,) = await self._backend.met([(sender_of(envelope.source), stamp_of(conversation))])
        return [(conversation if one.here else "", one.agent, one.at_ms) for one in known]


async def read_index(backend: Backend, model: "Meanings | None" = None) -> tuple[CapabilityIndex, int]:
    """The registry as it is now, and the moment, by the clock of the backend.

    Raises:
        BackendError: It cannot be read.
    """
    snapshot = await backend.snapshot()
    now_ms, beats = await backend.last_beats(0)
    index = CapabilityIndex(model=model)
    fill(index, snapshot)
    for last in beats:
        index.beat(last.agent_id, last.instance_id, last.at_ms, last.beat)
    if model is not None:
        index.read_intents(len(index.agents) * MAX_CAPABILITIES)
        await asyncio.to_thread(model.read_all)
    return index, now_ms
