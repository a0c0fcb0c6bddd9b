"""cancel: ends every open leg, or leaves a tombstone that answers the first send."""

from reach.backend.memory_backend.closing import lapse_leg
from reach.backend.memory_backend.partition import Partition
from reach.backend.memory_backend.store import MessageRecord
from reach.backend.steps import CancelResult
from reach.envelope.ledger import Head, LegState

MIN_TOMB_MS = 60_000


def cancel(part: Partition, msg_id: str, sender: str, round_: int, tomb_ms: int) -> CancelResult:
    """One `cancelled` receipt for each open leg. The sender must be the record's, and its round no greater."""
    record = part.load(msg_id)
    if record is None:
        head = Head(
            fingerprint="",
            sender=sender,
            scope="one",
            lane="normal",
            ttl_ms=0,
            network_ms=0,
            processing_ms=0,
            total_ms=0,
            max_attempts=1,
            members="",
            round=round_,
            tombstone=True,
        )
        return _bury(part, msg_id, MessageRecord(head, {}), tomb_ms)
    head = record.head
    if head.sender != sender:
        return CancelResult("denied")
    if head.tombstone:
        record.change_head(round=max(head.round, round_))
        return _bury(part, msg_id, record, tomb_ms)
    if head.round > round_:
        return CancelResult("newer")
    open_legs = record.open_legs()
    for number in open_legs:
        lapse_leg(part, msg_id, record, number, LegState.CANCELLED, "cancelled", "cancelled by its sender")
    if not open_legs:
        return CancelResult("ended")
    part.save(msg_id, record)
    return CancelResult("cancelled", len(open_legs))


def _bury(part: Partition, msg_id: str, record: MessageRecord, tomb_ms: int) -> CancelResult:
    key = part.keys.message(part.number, msg_id)
    part.store.put(key, record)
    part.store.expire_at(key, part.now_ms + max(tomb_ms, MIN_TOMB_MS))
    return CancelResult("tombstone")
