"""cancel: ends every open leg, or leaves a tombstone that answers the first send, also that of a round to come."""

from collections.abc import Mapping

from reach.backend.hinting import written
from reach.backend.memory_backend.closing import lapse_leg
from reach.backend.memory_backend.partition import Partition
from reach.backend.memory_backend.store import MessageRecord
from reach.backend.steps import CancelResult
from reach.envelope.ledger import Head, LegState

MIN_TOMB_MS = 60_000
MAX_TOMBSTONES = 8  # senders, for one message


def cancel(part: Partition, msg_id: str, sender: str, round_: int, tomb_ms: int) -> CancelResult:
    """One `cancelled` receipt for each open leg. The sender must be the record's, and its round no greater."""
    record = part.load(msg_id)
    if record is None or record.head.tombstones:
        known = record.head.tombstones if record is not None else {}
        return _bury(part, msg_id, known, sender, round_, tomb_ms)
    head = record.head
    if head.sender != sender:
        return CancelResult("denied")
    if head.round > round_:
        return CancelResult("newer")
    open_legs = record.open_legs()
    record.still = True  # no stage is called
    for number in open_legs:
        hint_at(part, record, number)
        lapse_leg(part, msg_id, record, number, LegState.CANCELLED, "cancelled", "cancelled by its sender")
    # What ended retryable a greater round would open again, and the send of that round may be on its way.
    ahead = round_ > head.round and any(leg.status == "retryable" for leg in record.legs.values())
    if ahead:
        record.change_head(stopped=max(head.stopped, round_))
    key = part.keys.message(part.number, msg_id)
    until_ms = max(part.now_ms + max(tomb_ms, MIN_TOMB_MS), part.store.expires_at_ms(key) or 0)
    if ahead or open_legs:
        part.save(msg_id, record)
    if ahead:
        part.store.expire_at(key, max(until_ms, part.expires_at_ms(record.head)))
    if open_legs:
        return CancelResult("cancelled", len(open_legs))
    return CancelResult("tombstone" if ahead else "ended")


def hint_at(part: Partition, record: MessageRecord, number: int) -> None:
    """Tell who may have the leg's entry that it is gone."""
    leg = record.legs[number]
    if leg.state in {LegState.QUEUED, LegState.RUNNING}:
        part.store.say(part.keys.hint(part.number, leg.agent), written(record.head.lane, leg.hand))


def _bury(
    part: Partition, msg_id: str, known: Mapping[str, int], sender: str, round_: int, tomb_ms: int
) -> CancelResult:
    """Each sender has a tombstone of its own there: a stranger's neither cancels nor saves the message. The longest is kept for all."""
    if sender not in known and len(known) >= MAX_TOMBSTONES:
        return CancelResult("denied")
    head = Head(
        fingerprint="",
        sender="",
        scope="one",
        lane="normal",
        ttl_ms=0,
        network_ms=0,
        processing_ms=0,
        total_ms=0,
        max_attempts=1,
        members="",
        tombstones={**known, sender: max(known.get(sender, 1), round_)},
    )
    key = part.keys.message(part.number, msg_id)
    until_ms = part.now_ms + max(tomb_ms, MIN_TOMB_MS)
    if known:
        until_ms = max(until_ms, part.store.expires_at_ms(key) or 0)
    part.store.put(key, MessageRecord(head, {}))
    part.store.expire_at(key, until_ms)
    return CancelResult("tombstone")
