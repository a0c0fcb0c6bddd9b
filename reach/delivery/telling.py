"""What hop records say of a message, as far as its record or an answer knows it."""

from collections.abc import Iterable

import msgspec

from reach.backend.steps import Answer, Record
from reach.envelope.codec import decode
from reach.errors import EnvelopeError
from reach.ids import records_deliveries
from reach.tracing.contents import ReceiptContent
from reach.tracing.hops import HopRecorder
from reach.tracing.record import Told


class _Members(msgspec.Struct):
    correlation_id: str = ""


_read = msgspec.json.Decoder(_Members).decode


def told_of(record: Record | None) -> tuple[Told, str | None]:
    """What a record says of its message, and the trace that it belongs to; little where its bytes are gone."""
    if record is None:
        return {}, None
    told: Told = {"round": record.head.round}
    try:
        envelope = decode(record.envelope, max_bytes=len(record.envelope)) if record.envelope else None
    except EnvelopeError:
        envelope = None
    if envelope is None:
        told["correlation_id"] = conversation_of(record)
        return told, None
    told["correlation_id"], told["type"] = envelope.conversation, envelope.type
    told["schema"] = envelope.payload.schema or ""
    return told, envelope.traces.traceparent


def made(answer: Answer, told: Told, msg_id: str, *, is_ours: bool = False) -> ReceiptContent:
    """A receipt, as far as a router knows it."""
    facts: dict[str, str | int | None] = {
        "msg_id": msg_id,
        "correlation_id": told.get("correlation_id") or msg_id,
        "leg": told.get("leg", 0),
        "target_agent": told.get("agent") or None,
        "target_instance": told.get("instance") or None,
        "attempts": told.get("attempt", 0),
        "round": told.get("round", 1),
    }
    return ReceiptContent(answer.core, answer.details, facts, told.get("schema"), is_ours)


def conversation_of(record: Record) -> str:
    """The conversation that a record's message belongs to; "" where nobody can tell."""
    try:
        return _read("{" + record.head.members + "}").correlation_id
    except (msgspec.DecodeError, UnicodeEncodeError):
        return ""


def put_receipt(told: Told, record: Record | None, leg: int, *, is_ours: bool = False) -> None:
    """The receipt of a leg that has ended, where its record has it. `is_ours`: reach itself has made it."""
    receipt = record.receipts.get(leg) if record is not None else None
    if receipt:
        told["receipt"] = ReceiptContent(receipt, schema=told.get("schema"), is_ours=is_ours)


def tell_delivered(
    hops: HopRecorder,
    partition: int,
    msg_id: str,
    told: Told,
    mailboxes: Iterable[str],
    traceparent: str | None,
    mark: int | None = None,
) -> None:
    """A leg has ended as told, and its receipt lies in these mailboxes: whose owner records nothing has it by that."""
    for mailbox in mailboxes:
        if mailbox and not records_deliveries(mailbox):
            said: Told = {**told, "entry": f"mail:{mailbox}"}
            for name in ("final", "receipt", "duration_us", "counts", "candidates", "chosen", "hand"):
                said.pop(name, None)  # type: ignore[misc]
            hops.add(partition, "message.delivered", msg_id, traceparent=traceparent, mark=mark, **said)
