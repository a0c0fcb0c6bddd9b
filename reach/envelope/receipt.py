"""How a leg ended, and the notices on the way (PROTOCOL, sections 4 and 13).

`ReceiptRecord` is what stands in a mailbox and in the ledger; `Receipt[T]` is the same with its output decoded to the
type that the caller asked for. `Notice` is never the end.
"""

import enum
from typing import Any, Literal

import msgspec

from reach.envelope.message import Int64

NoticeKind = Literal["routed", "received", "progress", "input_required", "registered", "done", "refused"]
NULL = msgspec.Raw(b"null")


class Status(enum.StrEnum):
    """How a leg ended. `failed`: again cannot help. `retryable`: it can."""

    SUCCESS = "success"
    FAILED = "failed"
    RETRYABLE = "retryable"


class ReceiptRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A terminal receipt as stored and sent. All fields are always written; `output` is JSON carried untouched.

    Moments are Unix ms, durations ms. `durability` is memory, everysec, always or replicated:n: the class that Redis
    was configured for, not a proof. `stored` marks a receipt that is sent again for a duplicate.
    """

    msg_id: str = ""
    task_id: str | None = None
    leg: Int64 = 0
    round: Int64 = 1
    status: Status
    code: str = ""
    output: msgspec.Raw = NULL
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


class Notice(msgspec.Struct, frozen=True):
    """Something that happened on the way: `{notice, msg_id, ...}` on the wire, the rest in `fields`."""

    notice: NoticeKind
    msg_id: str = ""
    fields: dict[str, Any] = {}
