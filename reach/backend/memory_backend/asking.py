"""What a parked leg asks, and what was answered before."""

from reach.backend.memory_backend.closing import quoted
from reach.backend.memory_backend.partition import Partition
from reach.backend.memory_backend.store import MessageRecord
from reach.envelope.ledger import Head, Leg, LegState, ends_at_ms


def question(msg_id: str, head: Head, number: int, leg: Leg, now_ms: int) -> bytes:
    """The notice that tells a caller what is asked. Whoever answers names the hand."""
    text = (
        f'{{"notice":"input_required","msg_id":"{msg_id}","leg":{number},"round":{head.round},"hand":{quoted(leg.hand)},'
        f'"agent":{quoted(leg.agent)},"attempt":{leg.attempt + 1},"open_ms":{max(ends_at_ms(head, leg) - now_ms, 0)},'
        f'"left_ms":{leg.left_ms},"prompt":{leg.prompt or "null"}}}'
    )
    return text.encode()


def ask_again(part: Partition, msg_id: str, record: MessageRecord, mailbox: str) -> None:
    """For a caller that comes late, or comes back."""
    for number, leg in sorted(record.legs.items()):
        if leg.state is LegState.PARKED:
            part.post(mailbox, b"n", question(msg_id, record.head, number, leg, part.now_ms))


def answers_of(leg: Leg) -> bytes:
    """What the next run is given: the state that the handler saved, and the answers; b"" where there are none."""
    if not leg.saved and not leg.answers:
        return b""
    told = ",".join(f'{{"prompt":"{one.prompt}","value":{one.value},"agent":"{one.agent}"}}' for one in leg.answers)
    return f'{{"state":{leg.saved or "null"},"answers":[{told}]}}'.encode()
