"""What can still be read of a broken envelope, so that its sender can be answered.

A refusal goes to `reply_to`, so a `reply_to` inside the body must not be taken for the envelope's: a candidate counts only
where it stands outside strings at the right depth. Bounded: at most 4 MiB are looked at, and a few candidates per field.
"""

import re
from typing import TypedDict

from reach import ids
from reach.envelope import scan
from reach.envelope.rules import MAX_ROUND

MAX_BYTES = 4 << 20
MAX_CANDIDATES = 4

_TEXT = rb'"[ \t\n\r]*:[ \t\n\r]*"([^"\\\x00-\x1f]{1,1024})"'
_REPLY_TO = re.compile(rb'"reply_to' + _TEXT)
_MSG_ID = re.compile(rb'"msg_id' + _TEXT)
_CORRELATION_ID = re.compile(rb'"correlation_id' + _TEXT)
_TASK_ID = re.compile(rb'"task_id' + _TEXT)
_ROUND = re.compile(rb'"round"[ \t\n\r]*:[ \t\n\r]*([1-9][0-9]{0,9})[ \t\n\r]*[,}]')
_SOURCE = re.compile(rb'"source"[ \t\n\r]*:[ \t\n\r]*\{[^{}]{0,4096}?"agent_id' + _TEXT)


class Salvaged(TypedDict):
    """The readable fields, each of valid grammar or None; arguments of EnvelopeError."""

    reply_to: str | None
    msg_id: str | None
    correlation_id: str | None
    task_id: str | None
    source: str | None
    round: int | None


def salvage(data: bytes) -> Salvaged:
    """Read what identifies the message and whom to answer; never raises."""
    data = data[:MAX_BYTES]
    reply_to = _field(_REPLY_TO, data)
    msg_id = _field(_MSG_ID, data)
    correlation_id = _field(_CORRELATION_ID, data)
    task_id = _field(_TASK_ID, data)
    source = _field(_SOURCE, data)
    round_ = int(_field(_ROUND, data) or 0)
    return Salvaged(
        reply_to=reply_to if ids.is_name(reply_to) else None,
        msg_id=msg_id if ids.is_uuid(msg_id) else None,
        correlation_id=correlation_id if ids.is_printable(correlation_id) else None,
        task_id=task_id if ids.is_key(task_id) else None,
        source=source if ids.is_name(source) else None,
        round=round_ if 1 <= round_ <= MAX_ROUND else None,
    )


def _field(pattern: re.Pattern[bytes], data: bytes) -> str:
    """The first match that stands directly in the envelope's own object; empty when there is none."""
    for count, found in enumerate(pattern.finditer(data)):
        if count == MAX_CANDIDATES:
            break
        if _stands_in_the_envelope(data[: found.start()]):
            return found[1].decode("utf-8", "replace")
    return ""


def _stands_in_the_envelope(before: bytes) -> bool:
    quotes = before.replace(b"\\\\", b"").replace(b'\\"', b"").count(b'"')
    if quotes % 2:
        return False
    brackets = scan.skeleton(before)
    return brackets.count(b"[") - brackets.count(b"]") == 1
