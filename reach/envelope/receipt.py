"""How a leg ended, and the notices on the way (PROTOCOL, sections 4 and 13).

`ReceiptRecord` is what stands in a mailbox and in the ledger; `Receipt[T]` is the same with its output decoded to the
type that the caller asked for. `Notice` is never the end.
"""

import enum
from typing import Any, Generic, Literal, TypeVar, cast

import msgspec

from reach.envelope.message import Int64
from reach.envelope.values import decode_value
from reach.errors import EnvelopeError, error_for

T = TypeVar("T")

NoticeKind = Literal["routed", "received", "progress", "input_required", "registered", "done", "refused"]
NULL = msgspec.Raw(b"null")


class Status(enum.StrEnum):
    """How a leg ended. `failed`: again cannot help. `retryable`: it can."""

    SUCCESS = "success"
    FAILED = "failed"
    RETRYABLE = "retryable"


class ReceiptFields(msgspec.Struct, frozen=True, kw_only=True):
    """What every form of a receipt tells. Moments are Unix ms, durations ms.

    `durability` is memory, everysec, always or replicated:n: the class that Redis was configured for, not a proof.
    `stored` marks a receipt that is sent again for a duplicate; `partial` one whose output is the best so far.
    """

    msg_id: str = ""
    task_id: str | None = None
    leg: Int64 = 0
    round: Int64 = 1
    status: Status
    code: str = ""
    error_message: str | None = None
    details: dict[str, Any] = {}
    schema: str | None = None
    correlation_id: str | None = None
    target_agent: str | None = None
    target_instance: str | None = None
    processing_host: str | None = None
    version: str = "1.0"
    duration_ms: Int64 | None = None
    queue_ms: Int64 | None = None
    attempts: Int64 = 0
    retry_count: Int64 = 0
    confidence: float | None = None
    partial: bool = False
    cost: float | None = None
    via: str | None = None
    retry_after_ms: Int64 | None = None
    finished_at: Int64 | None = None
    durability: str = "memory"
    stored: bool = False

    @property
    def ok(self) -> bool:
        """Whether it ended in success."""
        return self.status is Status.SUCCESS


class ReceiptRecord(ReceiptFields, frozen=True, kw_only=True):
    """A terminal receipt as stored and sent: all fields are always written; `output` is JSON carried untouched."""

    output: msgspec.Raw = NULL


class Receipt(ReceiptFields, Generic[T], frozen=True, kw_only=True):
    """A terminal receipt as the caller gets it: `output` is of the type that was asked for, None without success."""

    output: T | None = None

    def raise_for_status(self) -> None:
        """Nothing for a success.

        Raises:
            ReachError: The class that fits the code (NoRoute, Overloaded, Timeout, Rejected ...), with the details of
                the receipt and its msg_id.
        """
        if self.ok:
            return
        raise error_for(
            self.code,
            self.error_message or "",
            details={**self.details, "msg_id": self.msg_id},
            retryable=self.status is Status.RETRYABLE,
            retry_after_ms=self.retry_after_ms,
        )

    @property
    def value(self) -> T:
        """The output of a success.

        Raises:
            ReachError: As :meth:`raise_for_status`, where there is no success.
        """
        self.raise_for_status()
        return cast("T", self.output)

    @classmethod
    def from_wire(cls, record: ReceiptRecord, returns: type[T] | None = None) -> "Receipt[T]":
        """The receipt with its output decoded to `returns` (None: as plain JSON values).

        An output that does not fit ends nothing in an exception: the receipt then says `payload.invalid`, failed, and
        `details["ended"]` has the code that the leg really ended with.
        """
        fields = {name: getattr(record, name) for name in ReceiptFields.__struct_fields__}
        if record.ok or record.partial:
            try:
                fields["output"] = decode_value(record.output, returns)
            except EnvelopeError as error:
                details = {**record.details, **error.details, "ended": record.code}
                fields |= {"status": Status.FAILED, "code": error.code, "error_message": error.message}
                fields["details"] = details
        return cls(**fields)


class Notice(msgspec.Struct, frozen=True):
    """Something that happened on the way, never the end: `{notice, msg_id, ...}` on the wire, the rest in `fields`."""

    notice: NoticeKind
    msg_id: str = ""
    fields: dict[str, Any] = {}
