"""Ends a leg, or gives it back for a new decision. Shared by route, take, settle, due, cancel and close_inbox."""

import json
import re
from collections.abc import Iterable

import msgspec

from reach.backend.memory_backend.lining import leave
from reach.backend.memory_backend.partition import Partition
from reach.backend.memory_backend.sharing import count_out, unshare
from reach.backend.memory_backend.staging import Behind, stepped
from reach.backend.memory_backend.store import MessageRecord
from reach.backend.memory_backend.waking import entry_gone, unqueue
from reach.backend.steps import Answer
from reach.envelope.ledger import Head, Leg, LegState

_SLASH = str.maketrans(
    {"/": "\\/", "\x7f": "\\u007f"}
)  # as the Lua of Redis writes them: both backends give the same bytes


_VIA = re.compile(r'"via":null((?:,"retry_after_ms":[A-Za-z0-9.+-]*)?\}\Z)')
#: what an ended leg has asked and was told is of no more use
NOTHING_ASKED: dict[str, object] = {"prompt": "", "answers": (), "saved": "", "left_ms": 0}


def quoted(text: str) -> str:
    """A JSON string, `null` for the empty one."""
    return json.dumps(text, ensure_ascii=False).translate(_SLASH) if text else "null"


def members(json_object: str) -> str:
    """What stands between the braces of a JSON object."""
    return json_object.strip()[1:-1]


def with_member(json_object: str, member: str) -> str:
    """The object with one more member at its end."""
    inner = members(json_object)
    return "{" + (inner + "," if inner.strip() else "") + member + "}"


def own_answer(status: str, code: str, message: str) -> str:
    """A receipt's core for an end that no handler decided."""
    return (
        f'{{"status":"{status}","code":"{code}","output":null,"error_message":{quoted(message)},"schema":null,'
        '"processing_host":null,"confidence":null,"partial":false,"cost":null,"via":null,"retry_after_ms":null}'
    )


def marked(leg: Leg, answer: Answer) -> Answer:
    """The answer that says how the leg came to its agent, where its core is written as we do it: with via at its end."""
    found = _VIA.search(answer.core[-80:]) if leg.via else None
    if found is None:
        return answer
    core = f'{answer.core[: len(answer.core) - len(found[0])]}"via":{quoted(leg.via)}{found[1]}'
    return Answer(answer.status, answer.code, core, answer.details)


def remembered(leg: Leg, answer: Answer) -> dict[str, object]:
    """What a leg keeps of an answer. Status and code stand beside the core, since a core is never read here."""
    answer = marked(leg, answer)
    return {"status": answer.status, "code": answer.code, "core": answer.core, "details": answer.details}


def receipt_text(head: Head, number: int, leg: Leg, finished_at_ms: int, *, stored: bool) -> bytes:
    """The terminal receipt: built as text, nothing of the answer is decoded."""
    instance = leg.by_instance if leg.by_agent else leg.instance
    text = (
        f'{{{head.members},"leg":{number},"round":{head.round},"target_agent":{quoted(leg.by_agent or leg.agent)},'
        f'"target_instance":{quoted(instance)},"attempts":{leg.attempts},"retry_count":{max(leg.attempts - 1, 0)},'
        f'"duration_ms":{leg.duration_ms},"queue_ms":{max(leg.queue_ms, 0)},"finished_at":{finished_at_ms},'
        f'"stored":{"true" if stored else "false"},{members(leg.core)},"details":{leg.details or "{}"}}}'
    )
    return text.encode()


def measure(part: Partition, record: MessageRecord, number: int) -> None:
    """Note how long the leg waited for its first run, and how long its last run took."""
    leg = record.legs[number]
    if leg.taken_at_ms:
        record.change(number, duration_ms=max(part.now_ms - leg.taken_at_ms, 0))
    if leg.queue_ms < 0:
        waited_ms = (leg.taken_at_ms or part.now_ms) - record.head.accepted_at_ms
        record.change(number, queue_ms=max(waited_ms, 0))


def untold(
    part: Partition, msg_id: str, record: MessageRecord, number: int, run: Leg, code: str, began_ms: int | None = None
) -> None:
    """Have a router record what nobody does who was there: an end, or (`began_ms`) a run that ends with it. `run`: the leg as it ran."""
    leg = record.legs[number]
    ended = bool(leg.finished_at_ms)
    is_run = began_ms is not None or not (leg.by_agent or leg.hand.startswith("0"))  # a hand of nobody begins with 0
    attempt = run.attempt + is_run
    began = f',"began":{began_ms * 1000}' if began_ms is not None else ""
    told = (
        f'{{"at":{part.now_ms * 1000}{began},"round":{record.head.round},"attempt":{attempt},"agent":{quoted(run.agent)},'
        f'"instance":{quoted(run.instance)},"code":{quoted(code)},"status":{quoted(leg.status)},'
        f'"ended":{"true" if ended else "false"}}}'
    )
    part.append_untold(msg_id, number, leg.hand, told)


def untold_end(part: Partition, msg_id: str, record: MessageRecord, number: int) -> None:
    """Have a router record the end of a leg, with whose answer it ended."""
    leg = record.legs[number]
    by = msgspec.structs.replace(leg, agent=leg.by_agent, instance=leg.by_instance) if leg.by_agent else leg
    untold(part, msg_id, record, number, by, leg.code)


def close_leg(
    part: Partition,
    msg_id: str,
    record: MessageRecord,
    number: int,
    state: LegState,
    answer: Answer,
    *,
    ran: bool = False,
    sure: float = -1,
) -> None:
    """End the leg with its one terminal receipt. `ran`: there was a run that is not counted in `attempt` yet.

    The best answer so far survives every end but a cancel. `sure`: of a success that a run has just given.
    """
    measure(part, record, number)
    count_out(part, record, number)
    if record.legs[number].rooms:
        unqueue(part, msg_id, record, number)
    leg = record.legs[number]
    if leg.state in {LegState.QUEUED, LegState.RUNNING}:  # else its entry is gone, and the id may be another's
        part.discard(leg.agent, record.head.lane, leg.hand)
        entry_gone(part, leg.agent)
    best = leg.best
    if best is not None and state is not LegState.CANCELLED and sure < best.confidence:
        record.change(number, by_agent=best.agent, by_instance=best.instance, duration_ms=best.duration_ms)
        answer, state = Answer("success", best.code, best.core, best.details), LegState.DONE
    record.change(
        number,
        state=state,
        best=None,
        attempts=leg.attempt + (1 if ran else 0),
        **remembered(leg, answer),
        finished_at_ms=part.now_ms,
        wait_ms=-1,
        **NOTHING_ASKED,
    )
    record.change_head(open=record.head.open - 1)
    if record.head.open <= 0:
        record.change_head(latest_at_ms=0)
        part.disarm(msg_id)
        part.forget_envelope(msg_id, record.head)
    leave(part, msg_id, record)
    receipt = receipt_text(record.head, number, record.legs[number], part.now_ms, stored=False)
    for mailbox in record.head.mailboxes:
        part.post(mailbox, b"r", receipt)
    end_behind(part, msg_id, record, stepped(part, msg_id, record, number))
    if record.head.scope == "all" and not ran and record.legs[number].code == "stage.failed":
        untold_end(part, msg_id, record, number)


def end_behind(part: Partition, msg_id: str, record: MessageRecord, legs: Iterable[Behind]) -> None:
    """End the legs behind a stage that has failed."""
    for behind in legs:
        core = own_answer("failed", "stage.failed", "an earlier stage of process_order failed")
        ended = Answer("failed", "stage.failed", core, behind.details)
        close_leg(part, msg_id, record, behind.number, LegState.DONE, ended)


def lapse_leg(
    part: Partition,
    msg_id: str,
    record: MessageRecord,
    number: int,
    state: LegState,
    code: str,
    message: str,
    *,
    told: bool = False,
) -> None:
    """End a leg by the step's own judgement; details say where it was, and what was last heard of it. A run that it cuts off counts.

    `told`: whoever has called the step is told of it, and records it.
    """
    leg = record.legs[number]
    details = f'{{"state":"{leg.state}"}}'
    if leg.core:
        details = with_member(details, f'"last_code":{quoted(leg.code)}')
    status = "failed" if code == "cancelled" else "retryable"
    record.change(number, settled=False)
    answer = Answer("failed" if status == "failed" else "retryable", code, own_answer(status, code, message), details)
    ran = leg.state in {LegState.RUNNING, LegState.PARKED} or (leg.state is LegState.QUEUED and leg.taken_at_ms > 0)
    close_leg(part, msg_id, record, number, state, answer, ran=ran)
    if not told:
        untold_end(part, msg_id, record, number)


def give_back(
    part: Partition,
    msg_id: str,
    record: MessageRecord,
    number: int,
    code: str,
    *,
    burn: bool,
    answer: Answer | None = None,
    wait_ms: int = -1,
    told: bool = False,
) -> bool:
    """Return the leg for a new decision: its bytes move to env, an `again` asks a router.

    `burn`: the run counts as an attempt. `answer`: None keeps the last one. False: the leg has ended, since the bytes are lost, or since
    it was the one other run that was to give a better answer than its best. `told`: whoever has called the step is told if it ends with
    that.
    """
    told = told and record.legs[number].best is not None
    if record.legs[number].best is not None and (burn or record.legs[number].state is LegState.RUNNING):
        close_leg(part, msg_id, record, number, LegState.DONE, answer or Answer("success", "", ""), ran=True)
        if not told:
            untold_end(part, msg_id, record, number)
        return False
    envelope = part.envelope_of(msg_id, record, number)
    measure(part, record, number)
    if envelope is None:
        message = "the bytes of the message were lost with its inbox entry"
        lapse_leg(part, msg_id, record, number, LegState.EXPIRED, "backend.unavailable", message, told=told)
        return False
    if part.kept_envelope(msg_id) is None:
        part.keep_envelope(msg_id, record.head, envelope)
    leg = record.legs[number]
    if burn:
        attempt = leg.attempt + 1
        entry = f'{{"attempt":{attempt},"agent":{quoted(leg.agent)},"code":{quoted(code)},"at":{part.now_ms}}}'
        record.change(number, attempt=attempt, moves=0, left=(), returns=0)
        record.change(number, history=(*leg.history, entry), tried=(*leg.tried, leg.agent))
    elif wait_ms >= 0:
        record.change(number, returns=leg.returns + 1)
        if code == "probe.failed" and leg.agent not in leg.tried:  # another agent first, whose probe does not fail
            record.change(number, tried=(*leg.tried, leg.agent))
    if answer is not None:
        record.change(number, **remembered(leg, answer))
    unshare(part, record, number)
    if leg.agent and leg.hand != "0":
        part.discard(leg.agent, record.head.lane, leg.hand)
        entry_gone(part, leg.agent)
    record.change(number, state=LegState.RETURNED, taken_at_ms=0, alive_at_ms=0, rearm=0, wait_ms=wait_ms)
    part.append_again(msg_id, number, leg.hand)
    part.arm(msg_id, record, number, part.now_ms + 3000)
    return True
