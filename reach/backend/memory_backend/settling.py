"""The agent's side: settle (answer), renew and progress (signs of life)."""

from collections.abc import Mapping, Sequence

from reach import ids
from reach.backend.memory_backend.answering import answered, led_by, weighed
from reach.backend.memory_backend.closing import close_leg, give_back, lapse_leg, untold
from reach.backend.memory_backend.fencing import catch_up, discard_own
from reach.backend.memory_backend.health import at_fault, failed_there, judged, lost_run
from reach.backend.memory_backend.partition import Partition
from reach.backend.steps import Settlement, SettleVerdict
from reach.envelope.circuit import probe_of
from reach.envelope.ledger import Best, LegState, ends_at_ms


def settle(part: Partition, agent: str, settlements: Sequence[Settlement]) -> list[SettleVerdict]:
    """Write results and receipts, one verdict for each."""
    records = all(each.records for each in settlements)
    return [_settle(part, agent, settlement, records=records) for settlement in settlements]


def _settle(part: Partition, agent: str, settlement: Settlement, *, records: bool) -> SettleVerdict:
    msg_id, number, answer = settlement.msg_id, settlement.leg, answered(settlement.answer)
    record = part.load(msg_id)
    leg = record.legs.get(number) if record is not None else None
    if record is None or leg is None:
        discard_own(part, agent, settlement.msg_id, number, settlement.hand)
        return "unknown"
    if leg.hand != settlement.hand or leg.agent != agent:
        discard_own(part, agent, settlement.msg_id, number, settlement.hand)
        return "stale"
    if leg.state is LegState.OBSERVED:  # a plain reader has seen it
        discard_own(part, agent, settlement.msg_id, number, settlement.hand)
    same_instance = not settlement.instance or settlement.instance == leg.instance
    if leg.state == LegState.QUEUED:
        catch_up(part, record, number, settlement.instance)
    elif leg.state != LegState.RUNNING or not same_instance:
        return "done" if leg.settled and same_instance else "stale"
    hung, before = at_fault(part, record, number, answer.code), failed_there(record.legs[number])
    if part.now_ms >= ends_at_ms(record.head, leg):
        lost_run(part, msg_id, record, number)
        message = "its run ended after the total time"
        lapse_leg(part, msg_id, record, number, LegState.EXPIRED, "timeout.total", message)
        part.save(msg_id, record)
        return "stale"
    leg = record.legs[number]
    answer, sure = weighed(answer, record.head.min_confidence)
    answer = led_by(leg, answer)
    may_ask = leg.best is None and record.head.scope == "one" and part.envelope_of(msg_id, record, number) is not None
    if answer.status == "retryable" and leg.best is None:
        # Where a probe has failed nothing has run: it burns none.
        wait_ms = max(settlement.wait_ms, 0 if answer.code == "probe.failed" else -1)
        if give_back(part, msg_id, record, number, answer.code, burn=wait_ms < 0, answer=answer, wait_ms=wait_ms):
            record.change(number, settled=True)
    elif answer.status == "success" and sure < record.head.min_confidence and may_ask:
        give_back(part, msg_id, record, number, answer.code, burn=True, answer=answer)
        took_ms = record.legs[number].duration_ms
        best = Best(sure, answer.code, answer.core, answer.details, leg.agent, leg.instance, took_ms)
        record.change(number, best=best, settled=True)
    else:
        record.change(number, settled=True)
        close_leg(part, msg_id, record, number, LegState.DONE, answer, ran=True, sure=sure)
    if not records:
        untold(part, msg_id, record, number, leg, answer.code, leg.taken_at_ms or part.now_ms)
    part.save(msg_id, record)
    run = probe_of(msg_id, number, settlement.hand)
    judged(part, agent, run, answer, settlement.wait_ms, hung=hung, before=before)
    return "done"


def renew(part: Partition, agent: str, instance: str, held: Mapping[str, Sequence[str]]) -> set[str]:
    """XCLAIM JUSTID for lane -> hands; those still held. One that is missing was lost or cancelled.

    What is pending to another instance is not renewed: one that had it before must not keep the lease of one that is dead by now.
    What is pending to nobody, since its lane has lost its group, is still that of whom the ledger says that he runs it.
    """
    still: set[str] = set()
    for lane, hands in held.items():
        group = part.readers(agent, lane)
        rows = {hand: group.pending_of(hand) if group is not None else None for hand in hands}
        own = [hand for hand, row in rows.items() if row is not None and row.consumer == instance]
        own += [hand for hand, row in rows.items() if row is None and _runs(part, agent, lane, instance, hand)]
        still.update(part.hold(agent, lane, instance, own))
    return still


def _runs(part: Partition, agent: str, lane: str, instance: str, hand: str) -> bool:
    """Whether the ledger says so of an entry that lies in the lane."""
    stream = part.inbox(agent, lane)
    fields = (stream.get(hand) if stream is not None else None) or {}
    number = ids.count_of(fields.get(b"l", b""))
    record = part.load(fields.get(b"m", b"").decode(errors="replace")) if number is not None else None
    leg = record.legs.get(number) if record is not None and number is not None else None
    return (
        record is not None
        and leg is not None
        and leg.state is LegState.RUNNING
        and (leg.hand, leg.agent, leg.instance, record.head.lane) == (hand, agent, instance, lane)
    )


def progress(part: Partition, msg_id: str, number: int, hand: str, notice: bytes | None) -> bool:
    """A sign of life of the handler, fenced by the hand; with a notice also one into the mailboxes."""
    record = part.load(msg_id)
    leg = record.legs.get(number) if record is not None else None
    if record is None or leg is None or leg.hand != hand or leg.state not in {LegState.RUNNING, LegState.QUEUED}:
        return False
    record.change(number, alive_at_ms=part.now_ms)
    part.save(msg_id, record)
    if notice:
        for mailbox in record.head.mailboxes:
            part.post(mailbox, b"n", notice)
    return True
