"""park, answer: a message that waits for its caller. Nobody holds it meanwhile, and its total stands still."""

import hashlib

from reach.backend.bounds import MAX_ANSWERS, MAX_ANSWERS_BYTES, MAX_OPEN_MS, MAX_VALUE_BYTES, OPEN_MS
from reach.backend.memory_backend.answering import is_value
from reach.backend.memory_backend.asking import question
from reach.backend.memory_backend.closing import lapse_leg, measure, quoted
from reach.backend.memory_backend.fencing import catch_up, discard_own
from reach.backend.memory_backend.guarding import outlive
from reach.backend.memory_backend.health import lost_run, tally
from reach.backend.memory_backend.partition import Partition
from reach.backend.memory_backend.placing import post_routed
from reach.backend.memory_backend.sharing import unshare
from reach.backend.memory_backend.store import MessageRecord
from reach.backend.memory_backend.waking import entry_gone
from reach.backend.steps import AnswerVerdict, Parking, SettleVerdict
from reach.envelope.circuit import probe_of
from reach.envelope.ledger import Given, Leg, LegState, ends_at_ms
from reach.errors import ScriptFailed


def park(part: Partition, agent: str, parking: Parking) -> SettleVerdict:
    """Give up a message until it is answered. Fenced as settle."""
    msg_id, number = parking.msg_id, parking.leg
    prompt = _checked("prompt", parking.prompt)
    state = _checked("state", parking.state) if parking.state else ""
    record = part.load(msg_id)
    leg = record.legs.get(number) if record is not None else None
    if record is None or leg is None or leg.hand != parking.hand or leg.agent != agent:
        discard_own(part, agent, msg_id, number, parking.hand)
        return "stale" if leg is not None else "unknown"
    mine = not parking.instance or parking.instance == leg.instance
    if leg.state is not LegState.QUEUED and not (leg.state is LegState.RUNNING and mine):
        return "done" if leg.question_hand == parking.hand and mine else "stale"
    catch_up(part, record, number, parking.instance)
    leg = record.legs[number]
    envelope = part.envelope_of(msg_id, record, number)
    left_ms = ends_at_ms(record.head, leg) - part.now_ms
    if left_ms <= 0 or envelope is None:
        code, message = "timeout.total", "it asked after the total time"
        if envelope is None:
            code, message = "backend.unavailable", "the bytes of the message were lost with its inbox entry"
        else:
            lost_run(part, msg_id, record, number)
        lapse_leg(part, msg_id, record, number, LegState.EXPIRED, code, message)
        part.save(msg_id, record)
        return "stale"
    _check_room(leg)
    open_ms = min(parking.open_ms, MAX_OPEN_MS) if parking.open_ms > 0 else OPEN_MS
    _park(part, record, number, prompt, state, part.now_ms + open_ms, left_ms)
    _keep(part, msg_id, record, envelope)
    part.arm(msg_id, record, number, record.legs[number].total_at_ms)
    part.save(msg_id, record)
    tally(part, agent, probe_of(msg_id, number, parking.hand), good=True)  # whoever asks is well
    for name in parking.guards:
        outlive(part, part.keys.once(part.number, msg_id, name), msg_id)
    for mailbox in record.head.mailboxes:
        part.post(mailbox, b"n", question(msg_id, record.head, number, record.legs[number], part.now_ms))
    return "done"


def _park(
    part: Partition, record: MessageRecord, number: int, prompt: str, state: str, open_until_ms: int, left_ms: int
) -> None:
    measure(part, record, number)
    unshare(part, record, number)
    leg = record.legs[number]
    part.discard(leg.agent, record.head.lane, leg.hand)
    entry_gone(part, leg.agent)
    record.change(
        number,
        state=LegState.PARKED,
        question_hand=leg.hand,
        prompt=prompt,
        left_ms=left_ms,
        total_at_ms=open_until_ms,
        saved=state or leg.saved,
        taken_at_ms=0,
        alive_at_ms=0,
        rearm=0,
        settled=False,
        wait_ms=-1,
    )
    # An answer may come at the last moment, and what is left of the total begins then: till its end everything must be there.
    record.change_head(latest_at_ms=max(record.head.latest_at_ms, open_until_ms + left_ms))


def _keep(part: Partition, msg_id: str, record: MessageRecord, envelope: bytes) -> None:
    if part.kept_envelope(msg_id) is None:
        part.keep_envelope(msg_id, record.head, envelope)
        return
    key = part.keys.envelope(part.number, msg_id)
    part.store.expire_at(key, max(part.expires_at_ms(record.head), part.store.expires_at_ms(key) or 0))


def answer(part: Partition, msg_id: str, sender: str, number: int, hand: str, value: bytes) -> AnswerVerdict:
    """Let it go on where it can, burning nothing, with what was left of its total."""
    given = _checked("value", value)
    record = part.load(msg_id)
    if record is None or record.head.tombstones:
        return "unknown"
    if record.head.sender != sender:
        return "denied"
    leg = record.legs.get(number)
    if leg is None or leg.state is not LegState.PARKED or leg.hand != hand:
        return "stale"
    if part.now_ms >= ends_at_ms(record.head, leg):
        message = "nobody has answered in time"
        lapse_leg(part, msg_id, record, number, LegState.EXPIRED, "timeout.total", message)
        part.save(msg_id, record)
        return "stale"
    record.change(
        number,
        state=LegState.RETURNED,
        answered=_sha1(hand + given),
        answers=(*leg.answers, Given(_sha1(leg.prompt), given, leg.agent)),
        total_at_ms=part.now_ms + leg.left_ms,
        left_ms=0,
        prompt="",
        rearm=0,
    )
    record.change_head(latest_at_ms=_latest_ms(record))
    part.append_again(msg_id, number, hand)
    part.arm(msg_id, record, number, part.now_ms + 3000)
    part.save(msg_id, record)
    for mailbox in record.head.mailboxes:
        extra = f'{{"leg":{number},"hand":{quoted(hand)},"left_ms":{leg.left_ms}}}'
        post_routed(part, msg_id, record, mailbox, extra)
    return "done"


def _latest_ms(record: MessageRecord) -> int:
    """Until when the legs that have asked may go on: another one's question may be open for longer."""
    asked = [record.legs[number] for number in record.open_legs()]
    return max((leg.total_at_ms + leg.left_ms for leg in asked if leg.total_at_ms), default=0)


def _sha1(text: str) -> str:
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


def _checked(name: str, value: bytes) -> str:
    """One JSON value, as far as its ends and its brackets show it: what is inside is its reader's to judge."""
    try:
        text = value.decode() if len(value) <= MAX_VALUE_BYTES else ""
    except UnicodeDecodeError:
        text = ""
    if not is_value(text):
        raise ScriptFailed(f"REACH_INPUT {name} must be one JSON value of at most {MAX_VALUE_BYTES} bytes")
    return text


def _check_room(leg: Leg) -> None:
    """A message that would ask for ever, or whose record would grow with every answer."""
    if len(leg.answers) >= MAX_ANSWERS or sum(len(one.value.encode()) for one in leg.answers) > MAX_ANSWERS_BYTES:
        text = f"a message asks at most {MAX_ANSWERS} questions, and keeps {MAX_ANSWERS_BYTES} bytes of answers"
        raise ScriptFailed(f"REACH_INPUT {text}")
