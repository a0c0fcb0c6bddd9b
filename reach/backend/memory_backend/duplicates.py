"""A message that the partition knows already: a caller attaches, or a greater round re-opens what ended retryable."""

from collections.abc import Container
from typing import NamedTuple

from reach.backend.memory_backend.asking import ask_again
from reach.backend.memory_backend.closing import own_answer, receipt_text
from reach.backend.memory_backend.partition import Partition
from reach.backend.memory_backend.placing import post_routed
from reach.backend.memory_backend.store import MessageRecord
from reach.backend.steps import Plan, Send
from reach.envelope.ledger import Leg, LegState

MAX_CALLERS = 4


class Opening(NamedTuple):
    """A leg that begins. plan None: its agent is not among those that fit any more."""

    agent: str
    plan: Plan | None


def attach(part: Partition, decision: Send, record: MessageRecord) -> str:
    """What the message is known as. Of another sender's message, or of one with other content, nothing is shown."""
    head = record.head
    if not _same(record, decision):
        _answer(part, decision, "failed", "envelope.id_conflict", "another message has this msg_id")
        return "conflict"
    if not decision.reply_to:
        return "duplicate"
    if head.open > 0 and decision.reply_to not in head.mailboxes:  # nobody waits for what has ended
        if len(head.mailboxes) >= MAX_CALLERS:
            _answer(part, decision, "retryable", "overloaded", "four callers wait for this message already")
            return "overloaded"
        record.change_head(mailboxes=(*head.mailboxes, decision.reply_to))
        part.save(decision.msg_id, record)
    post_routed(part, decision.msg_id, record, decision.reply_to, decision.notice)
    post_stored(part, record, decision.reply_to)
    ask_again(part, decision.msg_id, record, decision.reply_to)
    return "duplicate"


def post_stored(part: Partition, record: MessageRecord, mailbox: str, leave_out: Container[int] = ()) -> None:
    """The receipts of the legs that have ended, for one caller that comes late."""
    for number, leg in sorted(record.legs.items()):
        if leg.finished_at_ms and leg.state is not LegState.OBSERVED and number not in leave_out:
            part.post(mailbox, b"r", receipt_text(record.head, number, leg, leg.finished_at_ms, stored=True))


def reopens(record: MessageRecord, decision: Send) -> bool:
    """Whether this is a new round of a message that has ended, and again can help."""
    return (
        decision.head.round > record.head.round
        and record.head.open <= 0
        and _same(record, decision)
        and any(map(_ended_retryable, record.legs.values()))
    )


def to_open(decision: Send, old: MessageRecord | None) -> dict[int, Opening]:
    """The legs to be opened: all of a new message; of an old broadcast those that ended retryable, each for its own agent."""
    if old is None or decision.head.scope == "one" or found_nobody(old):
        return {number: Opening(plan.agent, plan) for number, plan in enumerate(decision.plans)}
    by_agent: dict[str, Plan] = {plan.agent: plan for plan in decision.plans if plan.agent}
    openings: dict[int, Opening] = {}
    for number, leg in sorted(old.legs.items()):
        if _opens(leg):
            plan = by_agent.get(leg.agent)
            openings[number] = Opening(leg.agent, _answered(plan) if plan is not None else None)
    return openings


def found_nobody(record: MessageRecord) -> bool:
    """Whether it is a broadcast with one leg that is nobody's: a new round of it is fanned out anew."""
    first = record.legs.get(0)
    return record.head.legs == 1 and (first is None or not first.agent)


def _answered(plan: Plan) -> Plan:
    """Whoever had a leg of a stage has it again, wherever the order would see it now."""
    return Plan("hold", agent=plan.agent) if plan.act == "observe" else plan


def _same(record: MessageRecord, decision: Send) -> bool:
    head = decision.head
    return (record.head.fingerprint, record.head.sender) == (head.fingerprint, head.sender)


def _ended_retryable(leg: Leg) -> bool:
    return bool(leg.finished_at_ms) and leg.status == "retryable"


def _opens(leg: Leg) -> bool:
    """What was only ended for the stage before it may have its turn now."""
    return _ended_retryable(leg) or (bool(leg.finished_at_ms) and leg.code == "stage.failed")


def _answer(part: Partition, decision: Send, status: str, code: str, message: str) -> None:
    """A receipt for a send that has no leg of its own."""
    if decision.reply_to:
        leg = Leg(LegState.NEW, core=own_answer(status, code, message))
        part.post(decision.reply_to, b"r", receipt_text(decision.head, 0, leg, part.now_ms, stored=False))
