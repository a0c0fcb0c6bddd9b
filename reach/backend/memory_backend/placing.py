"""Carries out a plan for a leg: deliver, delay, finish."""

from typing import Literal, NamedTuple

from reach.backend.memory_backend.closing import (
    close_leg,
    lapse_leg,
    measure,
    quoted,
    receipt_text,
    remembered,
    with_member,
)
from reach.backend.memory_backend.health import handed
from reach.backend.memory_backend.holding import held_back
from reach.backend.memory_backend.observing import staged
from reach.backend.memory_backend.partition import Partition
from reach.backend.memory_backend.promoting import promote
from reach.backend.memory_backend.queueing import queue_up, served
from reach.backend.memory_backend.sharing import share
from reach.backend.memory_backend.staging import staged_members, stages_of
from reach.backend.memory_backend.store import MessageRecord
from reach.backend.memory_backend.ticking import LEASE_MS
from reach.backend.memory_backend.waking import unqueue
from reach.backend.steps import Plan
from reach.envelope.ledger import Leg, LegState, ends_at_ms
from reach.errors import BackendError

#: an `again` that was lost is made good after so long
CALLED_MS = 3_000


class Placed(NamedTuple):
    """`hand`: the id of the new inbox entry, "" where none was written. `known`: held or overloaded in its line, instead of the plan."""

    hand: str = ""
    known: Literal["", "held", "overloaded"] = ""


def place(
    part: Partition, msg_id: str, record: MessageRecord, number: int, plan: Plan, envelope: bytes | None
) -> Placed:
    """Do what the plan says, unless it is not the first in its line, waits for its stage, or only observes."""
    placed = _place(part, msg_id, record, number, plan, envelope)
    leg = record.legs[number]
    if leg.rooms and leg.state is LegState.QUEUED:
        served(part, msg_id, record, number, plan)
    elif leg.rooms and leg.state is not LegState.WAITING:
        unqueue(part, msg_id, record, number)
    return placed


def _place(
    part: Partition, msg_id: str, record: MessageRecord, number: int, plan: Plan, envelope: bytes | None
) -> Placed:
    if record.head.scope == "all":
        left = staged(part, msg_id, record, number, plan, envelope)
        if left is None:
            return Placed(record.legs[number].hand if plan.act == "observe" else "")
        plan = left
    instead = held_back(part, msg_id, record, number, plan, envelope)
    if instead:
        return Placed(known=instead)
    if plan.act == "deliver":
        return Placed(_deliver(part, msg_id, record, number, plan, envelope))
    if plan.act == "delay":
        # By whose clock it is decided may be ahead.
        until_ms = max(part.now_ms + plan.wait_ms, record.head.not_before_ms)
        record.change(number, state=LegState.WAITING, until_ms=until_ms)
        if part.kept_envelope(msg_id) is None and envelope is not None:
            part.keep_envelope(msg_id, record.head, envelope)
        is_called = queue_up(part, msg_id, record, number, plan.rooms)
        part.arm(msg_id, record, number, part.now_ms + CALLED_MS if is_called else until_ms)
    else:
        _finish(part, msg_id, record, number, plan, envelope)
    return Placed()


def _deliver(
    part: Partition, msg_id: str, record: MessageRecord, number: int, plan: Plan, envelope: bytes | None
) -> str:
    agent = plan.agent
    promote(part, record, number, agent)
    head, leg = record.head, record.legs[number]
    ends_ms = ends_at_ms(head, leg)
    expires_at_ms = ends_ms if leg.handed else min(head.first_at_ms, ends_ms)
    fields = {
        b"m": msg_id.encode(),
        b"l": str(number).encode(),
        b"x": str(expires_at_ms).encode(),
        b"a": str(leg.attempt + 1).encode(),
    }
    if envelope is not None and not part.is_large(record, envelope):
        fields[b"e"] = envelope
    hand = part.append_inbox(agent, head.lane, fields)
    record.change(number, agent=agent)
    if (
        hand is None
    ):  # a leg of a broadcast, or a lane that takes no more; scope one has been asked for obstacles before
        record.change(number, core="")
        lapse_leg(part, msg_id, record, number, LegState.DONE, "agent.lost", f"the inbox of {agent} is gone")
        return ""
    record.change(
        number,
        state=LegState.QUEUED,
        hand=hand,
        queued_at_ms=part.now_ms,
        rearm=0,
        wait_ms=-1,
        settled=False,
        instance="",
        via=plan.via,
    )
    share(part, record, agent)
    handed(part, agent, msg_id, number, hand)
    # Not after a lease: somebody may have it by then, and die.
    part.arm(msg_id, record, number, part.now_ms + min(head.network_ms, LEASE_MS))
    return hand


def _finish(
    part: Partition, msg_id: str, record: MessageRecord, number: int, plan: Plan, envelope: bytes | None
) -> None:
    answer = plan.answer
    if answer is None:
        raise BackendError("a plan to finish needs an answer", details={"msg_id": msg_id, "leg": number})
    if plan.agent:
        record.change(number, agent=plan.agent)
    record.change(number, **remembered(record.legs[number], answer))
    details = answer.details
    if plan.dead and record.legs[number].best is None:
        letter = _bury(part, msg_id, record, number, envelope)
        details = with_member(details, f'"dead_letter":"{letter}"')
    finished = type(answer)(answer.status, answer.code, answer.core, details)
    close_leg(part, msg_id, record, number, LegState.DONE, finished)


def _bury(part: Partition, msg_id: str, record: MessageRecord, number: int, envelope: bytes | None) -> str:
    measure(part, record, number)
    leg = record.legs[number]
    record.change(number, attempts=leg.attempt)
    receipt = receipt_text(record.head, number, record.legs[number], part.now_ms, stored=False)
    return part.bury({b"m": msg_id.encode(), b"e": envelope or b"", b"r": receipt, b"h": history(leg)})


def history(leg: Leg) -> bytes:
    """The attempts of a leg as a JSON array."""
    return ("[" + ",".join(leg.history) + "]").encode()


def post_routed(part: Partition, msg_id: str, record: MessageRecord, mailbox: str, extra: str) -> None:
    """Tell a mailbox what has become of the message; `extra` is a JSON object whose members come first."""
    head = record.head
    legs = ",".join(
        f'{{"leg":{number},"agent":{quoted(leg.agent)}{staged_members(record, number)}}}'
        for number, leg in sorted(record.legs.items())
    )
    count = len(stages_of(record))
    stages = f',"stages":{count}' if count else ""
    member = (
        f'"notice":"routed","msg_id":"{msg_id}","round":{head.round},"scope":"{head.scope}","legs":[{legs}]{stages},'
        f'"processing_ms":{head.processing_ms},"total_ms":{head.total_ms}'
    )
    part.post(mailbox, b"n", with_member(extra or "{}", member).encode())
