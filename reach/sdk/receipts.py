"""What a caller gets: one receipt, or one per leg."""

from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from typing import Any, Generic, Self, TypeVar, overload

import msgspec

from reach.envelope.receipt import ReceiptRecord, Status
from reach.errors import error_for
from reach.sdk.bodies import BodyError, decode_body

T = TypeVar("T")

_COPIED = tuple(name for name in ReceiptRecord.__struct_fields__ if name != "output")


class Receipt(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """How a message, or one leg of it, ended. Moments are Unix ms, durations ms; the codes are in docs/codes.md.

    Attributes:
        output: What the handler returned, as the type that was asked for; None without success.
        status: success, failed (again cannot help) or retryable (it can).
        attempts: How often it was run.
        durability: The class that Redis is configured for (memory, everysec, always, replicated:n): not a proof.
        stored: It had ended before: this is the receipt of then.
    """

    msg_id: str
    status: Status
    code: str
    output: T | None = None
    error_message: str | None = None
    details: dict[str, Any] = {}
    task_id: str | None = None
    leg: int = 0
    round: int = 1
    schema: str | None = None
    correlation_id: str | None = None
    target_agent: str | None = None
    target_instance: str | None = None
    processing_host: str | None = None
    version: str = "1.0"
    duration_ms: int | None = None
    queue_ms: int | None = None
    attempts: int = 0
    retry_count: int = 0
    confidence: float | None = None
    partial: bool = False
    cost: float | None = None
    via: str | None = None
    retry_after_ms: int | None = None
    finished_at: int = 0
    durability: str = "memory"
    stored: bool = False

    @property
    def ok(self) -> bool:
        """Whether it ended well."""
        return self.status is Status.SUCCESS

    def raise_for_status(self) -> Self:
        """Itself, if it ended well.

        Raises:
            ReachError: The class for its code: NoRoute, Overloaded, Timeout, Rejected, Cancelled, HandlerFailed ...
        """
        if self.ok:
            return self
        raise error_for(
            self.code,
            self.error_message or "",
            details={**self.details, "msg_id": self.msg_id, "attempts": self.attempts},
            retryable=self.status is Status.RETRYABLE,
            retry_after_ms=self.retry_after_ms,
        )


class Receipts(Sequence[Receipt[T]]):
    """The receipts of a message with scope all, one per leg, in the order of the legs."""

    __slots__ = ("_receipts", "_sizes")

    def __init__(self, receipts: Iterable[Receipt[T]], sizes: Iterable[int] = ()) -> None:
        """`sizes`: how many legs each stage of a process_order has."""
        self._receipts = tuple(receipts)
        self._sizes = tuple(sizes)

    @overload
    def __getitem__(self, index: int) -> Receipt[T]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Receipt[T]]: ...
    def __getitem__(self, index: int | slice) -> Receipt[T] | Sequence[Receipt[T]]:
        return self._receipts[index]

    def __len__(self) -> int:
        return len(self._receipts)

    def __repr__(self) -> str:
        return f"Receipts({', '.join(f'{r.target_agent}: {r.code}' for r in self._receipts)})"

    @property
    def ok(self) -> bool:
        """Whether every leg ended well."""
        return all(receipt.ok for receipt in self._receipts)

    @property
    def stages(self) -> tuple[tuple[Receipt[T], ...], ...]:
        """The receipts stage by stage, where the message had a `process_order`, and it is known how many were in each; else empty."""
        if not self._sizes or sum(self._sizes) != len(self._receipts):
            return ()
        ends = tuple(accumulate(self._sizes, initial=0))
        return tuple(self._receipts[start:end] for start, end in pairwise(ends))

    @property
    def outputs(self) -> list[T | None]:
        """The outputs of the legs that ended well."""
        return [receipt.output for receipt in self._receipts if receipt.ok]

    def raise_for_status(self) -> Self:
        """Itself, if every leg ended well; else the error of the first that did not."""
        for receipt in self._receipts:
            receipt.raise_for_status()
        return self


def receipt_of(record: ReceiptRecord, returns: Any = Any) -> Receipt[Any]:
    """The record with its output read as `returns`. An output that does not fit is a failed receipt `payload.invalid`, no exception."""
    fields: dict[str, Any] = {name: getattr(record, name) for name in _COPIED}
    fields["finished_at"] = record.finished_at or 0
    try:
        fields["output"] = decode_body(bytes(record.output), returns if record.status is Status.SUCCESS else Any)
    except BodyError as error:
        if record.status is Status.SUCCESS:
            fields["status"] = Status.FAILED
            fields["code"] = error.code
            fields["error_message"] = f"the output does not fit: {error.message}"
        fields["details"] = {**record.details, **error.details, "at": "output", "ended": record.status.value}
    return Receipt(**fields)
