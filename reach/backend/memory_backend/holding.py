"""Who is not the first in its line is held: it is in no inbox, needs no room, and asks again when the one before it has ended."""

from typing import Literal

from reach.backend.memory_backend.closing import lapse_leg
from reach.backend.memory_backend.lining import MAX_LINE, first, has_line, join
from reach.backend.memory_backend.partition import Partition
from reach.backend.memory_backend.store import MessageRecord
from reach.backend.steps import Plan
from reach.envelope.ledger import LegState

FIRST_REARM_MS = 3_000


def is_behind(part: Partition, msg_id: str, record: MessageRecord) -> bool:
    """Whether a plan for it would end in `held`. A message that has not come yet has no leg."""
    if not has_line(record):
        return False
    head = first(part, record)
    has_joined = 0 in record.legs and record.legs[0].joined
    return head != msg_id and (head is not None or has_joined)


def held_back(
    part: Partition, msg_id: str, record: MessageRecord, number: int, plan: Plan, envelope: bytes | None
) -> Literal["", "held", "overloaded"]:
    """Every hand-over comes by here. held: it is; overloaded: its line has no room.

    What is not to go before a moment joins when it is due.
    """
    leg = record.legs[number]
    if not has_line(record) or leg.state is LegState.QUEUED or plan.act not in {"deliver", "delay"}:
        return ""
    if not leg.joined:
        if plan.act == "delay" and record.head.not_before_ms > part.now_ms:
            return ""
        if not join(part, msg_id, record):
            message = f"its order_key has {MAX_LINE} messages waiting"
            lapse_leg(
                part, msg_id, record, number, LegState.DONE, "overloaded", message, told=leg.state is LegState.NEW
            )
            return "overloaded"
    if first(part, record) == msg_id:
        if leg.state is LegState.HELD:  # from now on somebody is looked for
            record.change(number, queued_at_ms=part.now_ms)
        return ""
    record.change(number, state=LegState.HELD, rearm=0, agent="" if leg.state is LegState.NEW else leg.agent)
    if part.kept_envelope(msg_id) is None and envelope is not None:
        part.keep_envelope(msg_id, record.head, envelope)
    part.arm(msg_id, record, number, part.now_ms + FIRST_REARM_MS)
    return "held"
