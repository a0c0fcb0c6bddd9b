"""Whom a message answers: its loop back to that sender is none, and no rule keeps from a sender what it has asked for."""

from collections.abc import Awaitable, Callable

from reach.backend.port import Backend
from reach.backend.steps import Record
from reach.delivery.judge import Case, Reference
from reach.envelope.ledger import Leg
from reach.envelope.message import Envelope
from reach.envelope.rules import partition_of
from reach.errors import EnvelopeError
from reach.routing.index import CapabilityIndex
from reach.routing.pattern import parse

ALL_LEGS = -1


class Replies:
    """Looks up the message that another one answers, where it makes a difference. `inspect` reads a record, None: there is none."""

    def __init__(
        self,
        index: CapabilityIndex,
        backend: Backend,
        inspect: Callable[[int, Reference], Awaitable[Record | None]],
    ) -> None:
        self._index, self._backend, self._inspect = index, backend, inspect

    async def look_up(self, case: Case) -> None:
        """Note in the case who has sent the message that it answers, and whether its own sender has had that.

        Raises:
            BackendUnavailable, BackendFull, BackendDenied: Redis cannot be asked now.
        """
        envelope = case.envelope
        if case.replies_to or envelope is None or envelope.in_reply_to is None:
            return
        if not asks(self._index, envelope):
            return
        partitions = self._backend.partitions
        own = partition_of(envelope.in_reply_to, None, partitions)
        for partition in (own, *(p for p in range(partitions) if p != own)):
            record = await self._inspect(partition, Reference(envelope.in_reply_to, ALL_LEGS, "0"))
            if record is not None:
                case.replies_to = record.head.sender
                case.was_asked = any(had_it(leg, envelope.source.agent_id) for leg in record.legs.values())
                return


def asks(index: CapabilityIndex, envelope: Envelope) -> bool:
    """Whether it makes a difference whom this message answers: somebody who could get it is on its path, or refused by the rules."""
    hops, caller = envelope.traces.previous_hops, index.caller(envelope.source.agent_id, envelope.source.name or "")
    if envelope.in_reply_to is None or not (hops or caller):
        return False
    try:
        pattern = parse(envelope.target.pattern)
    except EnvelopeError:  # the decision will say so
        return False
    return any(
        agent.agent_id in hops or (caller is not None and caller.refusal(agent, pattern, envelope.type) is not None)
        for agent in index.match(pattern)
    )


def had_it(leg: Leg, agent_id: str) -> bool:
    """Whether a leg is, or was, with this agent."""
    return agent_id == leg.agent or agent_id in leg.tried
