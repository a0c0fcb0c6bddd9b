"""A move: a queued leg leaves the inbox where nobody has touched it for another one."""

from reach.backend.memory_backend.partition import Partition
from reach.backend.memory_backend.sharing import lying_with, unshare
from reach.backend.memory_backend.store import MessageRecord
from reach.backend.memory_backend.waking import entry_gone
from reach.backend.steps import Plan


def undelivered(part: Partition, record: MessageRecord, number: int) -> bool:
    """Whether nobody has been given its entry, which lies there."""
    leg = record.legs[number]
    group = part.readers(leg.agent, record.head.lane)
    return group is not None and group.pending_of(leg.hand) is None and part.inbox_entry(record, number) is not None


def crowded(part: Partition, plan: Plan) -> bool:
    """Whether the other agent has as much as it can begin already: routers decide about a whole backlog by one and the same beat."""
    return plan.act == "move" and 0 < plan.room <= lying_with(part, plan.agent)


def leave(part: Partition, record: MessageRecord, number: int, plan: Plan) -> None:
    """Take the old entry away, in the same step, so that it cannot be handed over twice."""
    leg = record.legs[number]
    unshare(part, record, number)
    part.discard(leg.agent, record.head.lane, leg.hand)
    entry_gone(part, leg.agent)
    record.change(number, moves=leg.moves + (not plan.free), left=(*leg.left, leg.agent))
