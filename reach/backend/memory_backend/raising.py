"""The timeouts of a message that goes to a slower agent than it was sent for: after a wait, a retry, a move."""

from reach.backend.memory_backend.partition import Partition
from reach.backend.memory_backend.placing import post_routed
from reach.backend.memory_backend.store import MessageRecord
from reach.backend.steps import Again
from reach.envelope.ledger import ends_at_ms


def raise_timeouts(part: Partition, decision: Again, record: MessageRecord) -> bool:
    """Whether something has risen. Not where total is over: nothing is handed over after its time."""
    head = record.head
    risen = decision.processing_ms > head.processing_ms or decision.total_ms > head.total_ms
    leg = record.legs[decision.leg]
    if part.now_ms >= ends_at_ms(head, leg) or not risen:
        return False
    more_ms = max(decision.total_ms - head.total_ms, 0)
    record.change_head(
        processing_ms=max(head.processing_ms, decision.processing_ms),
        total_ms=head.total_ms + more_ms,
        total_at_ms=head.total_at_ms + more_ms,
    )
    if leg.total_at_ms:  # it has asked, and has a total of its own
        own_ms = leg.total_at_ms + more_ms
        record.change(decision.leg, total_at_ms=own_ms)
        record.change_head(latest_at_ms=max(record.head.latest_at_ms, own_ms))
    envelope = part.kept_envelope(decision.msg_id)
    if envelope is not None:  # the bytes live as long as the record
        part.keep_envelope(decision.msg_id, record.head, envelope)
    return True


def tell_callers(part: Partition, msg_id: str, record: MessageRecord) -> None:
    """Say it to everybody who waits."""
    for mailbox in record.head.mailboxes:
        post_routed(part, msg_id, record, mailbox, "")
