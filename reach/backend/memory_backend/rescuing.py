"""A decision that fails after its entry was acknowledged: nobody holds it any more, so it must not be lost."""

from reach.backend.memory_backend.closing import lapse_leg, own_answer, receipt_text
from reach.backend.memory_backend.partition import Partition
from reach.backend.memory_backend.placing import history
from reach.backend.memory_backend.streams import Fields
from reach.backend.steps import Again, Decision, Refuse, Send
from reach.envelope.ledger import Leg, LegState


def letter_of(decision: Refuse) -> Fields:
    """The dead letter that a refusal asks for."""
    dead = decision.dead
    return {
        b"m": dead.get("m", b""),
        b"e": dead.get("e", b""),
        b"r": dead.get("r", decision.receipt),
        b"h": dead.get("h", b"[]"),
    }


def rescue(part: Partition, decision: Decision, why: str) -> None:
    """Into the dead letters, and whoever waits is told. Of a leg that failed half-way only what was saved counts: it ends."""
    message = f"it could not be routed: {why[:300]}"
    if isinstance(decision, Refuse):
        if decision.mailbox:
            part.post(decision.mailbox, b"r", decision.receipt)
        part.bury(letter_of(decision))
    elif isinstance(decision, Send):
        receipt = _end_all(part, decision, message)
        part.bury({b"m": decision.msg_id.encode(), b"e": decision.envelope, b"r": receipt, b"h": b"[]"})
    else:
        _end_half_way(part, decision, message)


def _end_all(part: Partition, decision: Send, message: str) -> bytes:
    """Every leg that is open ends in the ledger: a repeat of the message runs nothing. The receipt of the first that ended so."""
    record, first = part.opened, b""
    if record is not None:
        record.still = True
        for number in range(record.head.legs):
            leg = record.legs.setdefault(number, Leg(LegState.NEW))
            if not leg.finished_at_ms:
                lapse_leg(
                    part, decision.msg_id, record, number, LegState.DONE, "backend.unavailable", message, told=True
                )
                first = first or receipt_text(record.head, number, record.legs[number], part.now_ms, stored=False)
        part.save(decision.msg_id, record)
    if not first:
        leg = Leg(LegState.NEW, core=own_answer("retryable", "backend.unavailable", message))
        first = receipt_text(decision.head, 0, leg, part.now_ms, stored=False)
        if decision.reply_to:
            part.post(decision.reply_to, b"r", first)
    return first


def _end_half_way(part: Partition, decision: Again, message: str) -> None:
    msg_id, number = decision.msg_id, decision.leg
    letter = {b"m": msg_id.encode(), b"e": b"", b"r": b"", b"h": b"[]"}
    record = part.load(msg_id)
    if record is not None and number in record.legs and not record.legs[number].finished_at_ms:
        letter[b"e"] = part.envelope_of(msg_id, record, number) or b""
        lapse_leg(part, msg_id, record, number, LegState.EXPIRED, "backend.unavailable", message, told=True)
        part.save(msg_id, record)
        if record.legs[number].by_agent:  # a success is no dead letter
            return
        letter[b"r"] = receipt_text(record.head, number, record.legs[number], part.now_ms, stored=False)
        letter[b"h"] = history(record.legs[number])
    part.bury(letter)
