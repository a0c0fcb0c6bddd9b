"""How a leg ended, and the notices on the way (PROTOCOL, sections 4 and 13).

`ReceiptRecord` is what stands in a mailbox and in the ledger; what a caller gets of it is `reach.Receipt`. `Notice` is never the end.
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
    """A terminal receipt as stored and sent: all fields are always written. Moments are Unix ms, durations ms.

    `output` is JSON carried untouched.
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
    output: msgspec.Raw = NULL

    @property
    def ok(self) -> bool:
        """Whether it ended in success."""
        return self.status is Status.SUCCESS


class Notice(msgspec.Struct, frozen=True):
    """Something that happened on the way, never the end: `{notice, msg_id, ...}` on the wire, the rest in `fields`."""

    notice: NoticeKind
    msg_id: str = ""
    fields: dict[str, Any] = {}
