"""The legs of a broadcast that wait for their stage, and those that only observe."""

import msgspec

from reach.backend.memory_backend.partition import Partition
from reach.backend.memory_backend.sharing import lying_with
from reach.backend.memory_backend.staging import is_free, stage_of
from reach.backend.memory_backend.store import MessageRecord
from reach.backend.steps import Plan
from reach.envelope.ledger import LegState, ends_at_ms


def observe(
    part: Partition, msg_id: str, record: MessageRecord, number: int, plan: Plan, envelope: bytes | None
) -> None:
    """It has its entry where there is room for it, and ends at once without a receipt: no handler runs.

    `envelope` None: of what was cancelled before it came nothing is shown.
    """
    record.change(number, agent=plan.agent, state=LegState.OBSERVED, finished_at_ms=part.now_ms)
    lane = record.head.lane
    inbox = part.inbox(plan.agent, lane)
    if envelope is None or inbox is None or not part.make_readable(plan.agent, lane):
        return
    if 0 < plan.max_inbox <= part.untaken(plan.agent, lane) or 0 < plan.max_agent <= lying_with(part, plan.agent):
        return
    fields = {b"m": msg_id.encode(), b"l": str(number).encode()}
    fields |= {b"x": str(ends_at_ms(record.head, record.legs[number])).encode(), b"a": b"0", b"o": b"1"}
    if part.is_large(record, envelope):
        record.change_head(shows_large=True)
    else:
        fields[b"e"] = envelope
    hand = part.append_inbox(plan.agent, lane, fields)
    if hand is not None:
        record.change(number, hand=hand)


def staged(
    part: Partition, msg_id: str, record: MessageRecord, number: int, plan: Plan, envelope: bytes | None
) -> Plan | None:
    """The plan that is left for a leg of a broadcast; None: it observes, or waits for its stage.

    A stage may be free where its router thought otherwise: then it asks anew.
    """
    if plan.act == "observe":
        observe(part, msg_id, record, number, plan, envelope)
        return None
    if plan.act not in {"deliver", "delay", "hold"}:
        return plan
    if not is_free(record, stage_of(record, number)):
        # Its ttl bounds the first hand-over of the message, which is that of its first stage.
        record.change(number, state=LegState.HELD, rearm=0, handed=True)
        if part.kept_envelope(msg_id) is None and envelope is not None:
            part.keep_envelope(msg_id, record.head, envelope)
        part.arm(msg_id, record, number, ends_at_ms(record.head, record.legs[number]))
        return None
    return msgspec.structs.replace(plan, act="delay", wait_ms=0) if plan.act == "hold" else plan
