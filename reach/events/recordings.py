"""Messages as they were recorded, with what was answered, to be sent once more; and how two answers differ. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from reach.envelope.codec import decode
from reach.envelope.message import Envelope
from reach.envelope.privacy import Privacy
from reach.envelope.records import decode_receipt
from reach.errors import EnvelopeError, RecordError
from reach.events.fields import Record, dict_of, int_of, text_of
from reach.events.traced import ENDS, trace_of
from reach.tracing.contents import ReceiptContent

MAX_DIFFERENCES = 100
MAX_DEPTH = 64
_WHY = {
    "hash": "its envelope is only hashed here (the setting privacy)",
    "drop": "its envelope is not kept here (the setting privacy)",
    "large": "its envelope was too large to be kept, and is only hashed",
    "full": "there was no room for its envelope when it came",
    "unreadable": "its envelope could not be read",
}
NOT_RECORDED = "its envelope is not recorded"

Answer = dict[str, Any]
"""What a leg ended with: status, code and output, as far as they are known."""


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """A message as it was sent.

    Attributes:
        at_us: When it came.
        envelope: None: it cannot be sent again; `why_not` says why.
        answers: By agent, as far as they are recorded; without one the agent is "".
        code: How the message ended, as its records say.
    """

    msg_id: str
    correlation_id: str = ""
    at_us: int = 0
    envelope: Envelope | None = None
    why_not: str = ""
    answers: dict[str, Answer] = {}
    code: str = ""


class Difference(msgspec.Struct, frozen=True):
    """One place in which two JSON values differ, as `output.lines[2].price`. What only one of them has is None in the other, and told."""

    path: str
    was: Any = None
    now: Any = None
    only: str = ""  # "was" or "now": only there


def recordings_in(name: str, records: Iterable[Record], *, roots: bool) -> list[Recording]:
    """The messages of these records in the order in which they came. `roots`: only those that no other one of them has brought about."""
    kept = list(records)
    tree = trace_of(name, kept)
    by_id: dict[str, list[Record]] = {}
    for record in kept:
        by_id.setdefault(text_of(record, "msg_id"), []).append(record)
    chosen = tree.messages if roots else tree.walk()
    found = [
        _recording(message.msg_id, message.correlation_id, message.began_at_us, message.code, by_id[message.msg_id])
        for message in chosen
    ]
    return sorted(found, key=lambda one: one.at_us)


def with_ledger(recording: Recording, envelope: bytes, receipts: Mapping[int, bytes], privacy: Privacy) -> Recording:
    """The same with what the ledger still knows, where the records do not say it and `privacy` lets them."""
    known = recording.envelope
    if known is None and envelope:
        known, why_not = _envelope(envelope)
        keeping = privacy.of(_schemas(known)) if known is not None else "keep"
        if keeping == "keep":
            recording = msgspec.structs.replace(recording, envelope=known, why_not=why_not)
        else:
            recording = msgspec.structs.replace(recording, why_not=_WHY[keeping])
    if recording.answers:
        return recording
    answers = (_answer(receipt) for receipt in receipts.values() if _may_keep(receipt, known, privacy))
    return msgspec.structs.replace(recording, answers=dict(filter(None, answers)))


def _may_keep(receipt: bytes, envelope: Envelope | None, privacy: Privacy) -> bool:
    if envelope is None:
        return privacy.strictest() == "keep"
    return privacy.of((*_schemas(envelope), *(ReceiptContent(receipt).schemas or ()))) == "keep"


def _schemas(envelope: Envelope) -> tuple[str, ...]:
    return (envelope.payload.schema or "",)


def differences(was: Any, now: Any) -> tuple[Difference, ...]:
    """Where two JSON values differ, at most MAX_DIFFERENCES places."""
    found: list[Difference] = []
    for one in _differ(was, now, "", 0):
        found.append(one)
        if len(found) == MAX_DIFFERENCES:
            break
    return tuple(found)


def _differ(was: Any, now: Any, path: str, depth: int) -> Iterator[Difference]:
    if isinstance(was, dict) and isinstance(now, dict) and depth < MAX_DEPTH:
        for name in sorted(was.keys() | now.keys()):
            below = f"{path}.{name}" if path else name
            if name not in now:
                yield Difference(below, was=was[name], only="was")
            elif name not in was:
                yield Difference(below, now=now[name], only="now")
            else:
                yield from _differ(was[name], now[name], below, depth + 1)
    elif isinstance(was, list) and isinstance(now, list) and depth < MAX_DEPTH:
        for number in range(max(len(was), len(now))):
            below = f"{path}[{number}]"
            if number >= len(now):
                yield Difference(below, was=was[number], only="was")
            elif number >= len(was):
                yield Difference(below, now=now[number], only="now")
            else:
                yield from _differ(was[number], now[number], below, depth + 1)
    elif was != now or isinstance(was, bool) != isinstance(now, bool):  # 1 is not true
        yield Difference(path, was, now)


def _recording(msg_id: str, conversation: str, at_us: int, code: str, own: list[Record]) -> Recording:
    first = next((one for one in own if text_of(one, "point") == "message.received"), None)
    envelope, why_not = None, NOT_RECORDED
    if first is not None and isinstance(first.get("envelope"), dict):
        envelope, why_not = _envelope(msgspec.json.encode(first["envelope"]))
    elif first is not None:
        why_not = _WHY.get(text_of(dict_of(first, "left_out"), "why"), NOT_RECORDED)
    last: dict[int, Any] = {}
    for one in sorted(own, key=lambda one: int_of(one, "at_us")):
        if text_of(one, "point") in ENDS and isinstance(one.get("receipt"), dict):
            last[int_of(one, "leg")] = one["receipt"]
    answers = dict(filter(None, (_answer(msgspec.json.encode(receipt)) for receipt in last.values())))
    return Recording(
        msg_id=msg_id,
        correlation_id=conversation,
        at_us=at_us,
        envelope=envelope,
        why_not=why_not,
        answers=answers,
        code=code,
    )


def _envelope(data: bytes) -> tuple[Envelope | None, str]:
    try:
        return decode(data, max_bytes=max(len(data), 1)), ""
    except EnvelopeError as error:
        return None, f"its envelope cannot be read: {error.message}"


def _answer(data: bytes) -> tuple[str, Answer] | None:
    try:
        receipt = decode_receipt(data)
        output = msgspec.json.decode(receipt.output)
    except (RecordError, msgspec.DecodeError):
        return None
    return receipt.target_agent or "", {"status": receipt.status.value, "code": receipt.code, "output": output}
