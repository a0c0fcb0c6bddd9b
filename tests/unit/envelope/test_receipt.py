"""What a caller gets of a receipt."""

import msgspec
import pytest

from reach.envelope.receipt import Receipt, ReceiptRecord, Status
from reach.errors import HandlerFailed, NoRoute, Overloaded, ReachError, Rejected, Timeout


class Refund(msgspec.Struct):
    amount: int


def record(status: Status = Status.SUCCESS, *, output: bytes = b'{"amount":5}', **fields: object) -> ReceiptRecord:
    return ReceiptRecord(status=status, output=msgspec.Raw(output), **fields)  # type: ignore[arg-type]


def test_success_gives_the_value_in_the_type_that_was_asked_for() -> None:
    receipt = Receipt[Refund].from_wire(record(msg_id="m", code="ok", attempts=2), Refund)
    assert receipt.ok
    receipt.raise_for_status()
    assert receipt.output == receipt.value == Refund(5)
    assert (receipt.msg_id, receipt.attempts) == ("m", 2)
    assert Receipt.from_wire(record()).output == {"amount": 5}
    assert Receipt.from_wire(record(output=b"null")).value is None


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (Status.FAILED, "route.not_found", NoRoute),
        (Status.RETRYABLE, "route.no_candidate", NoRoute),
        (Status.RETRYABLE, "overloaded", Overloaded),
        (Status.RETRYABLE, "circuit.open", Overloaded),
        (Status.RETRYABLE, "timeout.total", Timeout),
        (Status.RETRYABLE, "ttl.expired", Timeout),
        (Status.FAILED, "ttl.zero", Rejected),
        (Status.FAILED, "handler.rejected", Rejected),
        (Status.RETRYABLE, "agent.lost", HandlerFailed),
        (Status.RETRYABLE, "handler.error", HandlerFailed),
        (Status.RETRYABLE, "a.code.of.its.own", HandlerFailed),
        (Status.FAILED, "a.code.of.its.own", Rejected),
    ],
)
def test_no_success_raises_the_class_of_its_code(status: Status, code: str, kind: type[ReachError]) -> None:
    wire = record(status, msg_id="m", code=code, error_message="why", details={"x": 1}, retry_after_ms=70)
    receipt: Receipt[object] = Receipt.from_wire(wire)
    assert not receipt.ok
    assert receipt.output is None
    with pytest.raises(kind) as caught:
        receipt.raise_for_status()
    error = caught.value
    assert type(error) is kind
    assert (error.code, error.message, error.retry_after_ms) == (code, "why", 70)
    assert error.details == {"x": 1, "msg_id": "m"}
    assert error.retryable is (status is Status.RETRYABLE)
    with pytest.raises(kind):
        _ = receipt.value


def test_the_best_so_far_is_given_without_success() -> None:
    receipt = Receipt.from_wire(record(Status.RETRYABLE, code="timeout.total", partial=True), Refund)
    assert (receipt.ok, receipt.output) == (False, Refund(5))


def test_an_output_that_does_not_fit_is_told_not_raised() -> None:
    receipt = Receipt.from_wire(record(output=b'{"amount":"much"}', code="ok", details={"x": 1}), Refund)
    assert (receipt.status, receipt.code, receipt.output) == (Status.FAILED, "payload.invalid", None)
    assert receipt.details["ended"] == "ok"
    assert receipt.details["x"] == 1
    assert "amount" in receipt.details["reason"]
