"""Answers: the part of a receipt that its maker knows, made here and read here. Pure.

An output is carried byte for byte: it is cut out of what the agent sent and put into the receipt, never decoded.
"""

from collections.abc import Mapping
from typing import Literal

import msgspec

from reach.backend.steps import Answer
from reach.envelope.codec import DEFAULT_MAX_BYTES
from reach.envelope.codes import default_code, describe
from reach.envelope.ledger import Leg
from reach.envelope.message import Envelope, Int64
from reach.envelope.receipt import NULL, ReceiptRecord, Status
from reach.envelope.records import MAX_RECEIPT_BYTES, decode_receipt
from reach.envelope.rules import MAX_TIMEOUT_MS
from reach.errors import EnvelopeError, RecordError

MAX_MESSAGE_CHARS = 4_096
MAX_CODE_CHARS = 128
ROOM_BYTES = 1 << 16  # for what the script fills in
AnswerStatus = Literal["success", "failed", "retryable"]


class Core(msgspec.Struct, frozen=True, kw_only=True):
    """The members of a receipt that its maker knows, in the order in which they are written. `details` goes beside it."""

    status: AnswerStatus
    code: str = ""
    output: msgspec.Raw = NULL
    error_message: str | None = None
    schema: str | None = None
    processing_host: str | None = None
    confidence: float | None = None
    partial: bool = False
    cost: float | None = None
    via: str | None = None
    retry_after_ms: Int64 | None = None


class _Kept(msgspec.Struct):
    status: AnswerStatus
    code: str


_encode = msgspec.json.Encoder().encode
_core = msgspec.json.Decoder(Core).decode
_kept = msgspec.json.Decoder(_Kept).decode
_EMPTY = "{}"


def make_answer(
    status: AnswerStatus,
    code: str = "",
    *,
    output: bytes = b"null",
    error_message: str | None = None,
    details: dict[str, object] | None = None,
    schema: str | None = None,
    processing_host: str | None = None,
    confidence: float | None = None,
    partial: bool = False,
    cost: float | None = None,
    via: str | None = None,
    retry_after_ms: int | None = None,
) -> Answer:
    """An answer; `output` is JSON text. An empty code is the one that the status has by default."""
    core = Core(
        status=status,
        code=code or default_code(Status(status)),
        output=msgspec.Raw(output),
        error_message=None if error_message is None else plain(error_message),
        schema=schema,
        processing_host=processing_host,
        confidence=confidence,
        partial=partial,
        cost=cost,
        via=via,
        retry_after_ms=retry_after_ms,
    )
    return Answer(status=status, code=core.code, core=_text(core), details=_details(details))


def code_answer(
    code: str, message: str, details: dict[str, object] | None = None, *, retry_after_ms: int | None = None
) -> Answer:
    """The answer that a code of the table means, for ends that no handler decided."""
    status: AnswerStatus = "retryable" if describe(code).retryable else "failed"
    return make_answer(status, code, error_message=message, details=details, retry_after_ms=retry_after_ms)


def with_cost(answer: Answer, cost: float | None) -> Answer:
    """The same answer, saying this cost where it says none."""
    if cost is None:
        return answer
    core = _core(answer.core)
    if core.cost is not None:
        return answer
    return msgspec.structs.replace(answer, core=_text(msgspec.structs.replace(core, cost=cost)))


def kept_answer(leg: Leg) -> Answer:
    """The answer that a leg has from its last run; one that nobody can read any more is `handler.error`."""
    try:
        kept = _kept(leg.core)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return _junk("the answer of its last run cannot be read")
    return Answer(status=kept.status, code=kept.code, core=leg.core, details=leg.details or _EMPTY)


def read_answer(data: bytes, *, max_bytes: int = DEFAULT_MAX_BYTES) -> tuple[Answer, int]:
    """What an agent sent as its receipt: the answer, and the wait that it asked for (ms; -1 = none, an ordinary result).

    Never raises: junk is the answer `handler.error`, with the reason in details.
    """
    try:
        sent = decode_receipt(data, max_bytes=max_bytes)
    except RecordError as error:
        return _junk(error.message), -1
    if len(sent.code) > MAX_CODE_CHARS or not sent.code.isprintable():
        return _junk("code is no code"), -1
    if sent.confidence is not None and not 0 <= sent.confidence <= 1:
        return _junk("confidence is not 0 to 1"), -1
    core = Core(
        **{name: getattr(sent, name) for name in Core.__struct_fields__ if name != "status"}, status=sent.status.value
    )
    wait_ms = -1
    if sent.status is Status.RETRYABLE and sent.retry_after_ms is not None and describe(sent.code).retried_inside:
        wait_ms = min(max(sent.retry_after_ms, 0), MAX_TIMEOUT_MS)
    answer = Answer(status=core.status, code=core.code, core=_text(core), details=_details(sent.details))
    size_bytes = len(answer.core.encode()) + len(answer.details.encode())
    if size_bytes > MAX_RECEIPT_BYTES - ROOM_BYTES:  # written again a number may be longer than it was
        return _junk(f"{size_bytes} bytes"), -1
    return answer, wait_ms


def refusal(error: EnvelopeError, *, at_ms: int, durability: str, retry_after_ms: int | None = None) -> bytes:
    """The whole receipt for an envelope that was refused: nothing of it is in the ledger, so nothing else fills it in."""
    return _encode(
        ReceiptRecord(
            msg_id=error.msg_id or "",
            task_id=error.task_id or error.msg_id,
            round=error.round or 1,
            status=Status.RETRYABLE if describe(error.code).retryable else Status.FAILED,
            code=error.code,
            error_message=plain(error.message),
            details={key: plain(value) if isinstance(value, str) else value for key, value in error.details.items()},
            correlation_id=error.correlation_id or error.msg_id,
            duration_ms=0,
            queue_ms=0,
            retry_after_ms=retry_after_ms,
            finished_at=at_ms,
            durability=durability,
        )
    )


def addressed(error: EnvelopeError, envelope: Envelope) -> EnvelopeError:
    """The error with what its receipt needs, for one that was found in a valid envelope."""
    return EnvelopeError(
        error.code,
        error.message,
        details=error.details,
        reply_to=envelope.reply_to,
        msg_id=envelope.msg_id,
        correlation_id=envelope.conversation,
        task_id=envelope.task,
        source=envelope.source.agent_id,
        round=envelope.round,
    )


def plain(text: str) -> str:
    """A text that every JSON reader takes: no lone surrogates, at most 4,096 characters."""
    return text[:MAX_MESSAGE_CHARS].encode("utf-8", "replace").decode()


def _junk(reason: str) -> Answer:
    return make_answer(
        "retryable",
        "handler.error",
        error_message="the agent's receipt cannot be read",
        details={"reason": plain(reason)[:300]},
    )


def _text(core: Core) -> str:
    return _encode(core).decode()


def _details(details: Mapping[str, object] | None) -> str:
    if not details:
        return _EMPTY
    return _encode(details).decode()
