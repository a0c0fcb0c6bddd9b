"""Who may speak for a leg: settle and park are fenced by the same hand and instance."""

from reach.backend.memory_backend.partition import Partition
from reach.backend.memory_backend.store import MessageRecord
from reach.envelope.ledger import LegState


def catch_up(part: Partition, record: MessageRecord, number: int, instance: str) -> None:
    """A plain XREADGROUP reader comes without a take: its run began when the entry was delivered."""
    leg = record.legs[number]
    if leg.state is not LegState.QUEUED:
        return
    group = part.readers(leg.agent, record.head.lane)
    pending = group.pending_of(leg.hand) if group is not None else None
    delivered_at_ms = part.now_ms - pending.idle_ms(part.now_ms) if pending is not None else part.now_ms
    record.change(
        number,
        instance=instance or (pending.consumer if pending is not None else ""),
        taken_at_ms=leg.taken_at_ms or delivered_at_ms,
        handed=True,
    )


def discard_own(part: Partition, agent: str, msg_id: str, number: int, hand: str) -> None:
    """Only this message's own entry: ids are unique within a stream, and another lane may have the same one."""
    for lane, _ in part.lanes(agent):
        inbox = part.inbox(agent, lane)
        entry = inbox.get(hand) if inbox is not None else None
        if entry is None or entry.get(b"m") != msg_id.encode():
            continue
        if entry.get(b"l") == str(number).encode():
            part.discard(agent, lane, hand)
