"""Durations, bodies, outcomes and receipts: the pure part of the SDK."""

import dataclasses
import datetime as dt
import math
from typing import Any, TypedDict

import msgspec
import pydantic
import pytest

from reach import NoRoute, Overloaded, ReachError, Receipt, Receipts, Reject, Rejected, Result, Retry, Status, Timeout
from reach.backend.steps import Answer
from reach.envelope.receipt import ReceiptRecord
from reach.sdk.bodies import BodyError, decode_body, encode_body
from reach.sdk.durations import MAX_MS, maybe_ms, moment_ms, to_ms
from reach.sdk.outcome import MAX_DETAILS_BYTES, MAX_OUTPUT_BYTES, raised, succeeded, text_of
from reach.sdk.receipts import receipt_of


class AStruct(msgspec.Struct):
    n: int


@dataclasses.dataclass
class AClass:
    n: int


class ADict(TypedDict):
    n: int


class AModel(pydantic.BaseModel):
    n: int
    at: dt.date = dt.date(2025, 1, 2)


class AnyModel(pydantic.BaseModel):
    n: Any


class Outer(msgspec.Struct):
    inner: AModel


# ---------------------------------------------------------------- durations


@pytest.mark.parametrize(
    ("value", "ms"),
    [(1, 1000), (0.0015, 2), (1.1, 1100), (dt.timedelta(minutes=1), 60_000), (0.3, 300), (MAX_MS / 1000, MAX_MS)],
)
def test_seconds_and_timedeltas_become_whole_ms(value: Any, ms: int) -> None:
    assert to_ms(value, "x") == ms


@pytest.mark.parametrize(
    "value",
    [0, -1, math.nan, math.inf, 1e300, -1e308, 10**400, -(10**400), True, "1", None, MAX_MS, dt.timedelta(days=8)],
)
def test_what_is_no_duration_is_said_with_its_name(value: Any) -> None:
    with pytest.raises(ValueError, match="patience"):
        to_ms(value, "patience")


@pytest.mark.parametrize("value", [math.nan, math.inf, 1e300, 10**400, -(10**400)])
def test_what_is_no_moment_is_said_with_its_name(value: Any) -> None:
    with pytest.raises(ValueError, match="start"):
        moment_ms(value, "start")


def test_zero_is_a_duration_where_it_is_allowed() -> None:
    assert to_ms(0, "ttl", least=0) == 0
    assert maybe_ms(None, "x") is None


@pytest.mark.parametrize("value", [-0.5, -(10**400), -math.inf, math.nan])
def test_what_is_below_zero_or_no_number_is_not_zero(value: float) -> None:
    with pytest.raises(ValueError, match="ttl"):
        to_ms(value, "ttl", least=0)


# ---------------------------------------------------------------- bodies


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ({"a": [1, None]}, b'{"a":[1,null]}'),
        (AStruct(1), b'{"n":1}'),
        (AClass(2), b'{"n":2}'),
        (AModel(n=3), b'{"n":3,"at":"2025-01-02"}'),
        ([AModel(n=3)], b'[{"n":3,"at":"2025-01-02"}]'),
        (msgspec.Raw(b'{ "a" : 1.0 }'), b'{ "a" : 1.0 }'),
        (msgspec.Raw(rb'"\ud800"'), rb'"\ud800"'),
        (msgspec.Raw(b""), b"null"),
        (None, b"null"),
    ],
)
def test_a_body_is_written_as_what_it_is(value: object, written: bytes) -> None:
    assert bytes(encode_body(value)) == written


def deep(levels: int) -> Any:
    """A list in a list in a list."""
    return msgspec.json.decode(b"[" * levels + b"]" * levels)


JUNK = (b"{", b"1 2", b"NaN", b"\xff", b'1},"x":{"y":1', b"\xef\xbb\xbf1", b"[" * 63 + b"]" * 63, b"[" * 90_000)


def _circle() -> list[Any]:
    circle: list[Any] = []
    circle.append(circle)
    return circle


NONE = (math.nan, math.inf, -math.inf)


@dataclasses.dataclass
class AFloat:
    x: float | None


@pytest.mark.parametrize(
    "value",
    [
        *(object(), {"x": object()}, "\ud800", _circle(), {(1, 2): object()}, deep(63), {"x": deep(62)}),
        *(*map(msgspec.Raw, JUNK), *([msgspec.Raw(junk)] for junk in JUNK), [1, msgspec.Raw(b"")]),
        *(*NONE, {"a": [1, {"b": NONE[0]}]}, AFloat(NONE[1]), (None, NONE[2]), [AFloat(NONE[0])], AnyModel(n=NONE[0])),
    ],
)
def test_a_body_that_cannot_be_written_is_one_error(value: object) -> None:
    with pytest.raises(BodyError) as caught:
        encode_body(value)
    assert caught.value.code == "payload.invalid"
    assert caught.value.details["type"] == type(value).__name__


@pytest.mark.parametrize(
    ("data", "kind", "value"),
    [
        (b'{"n":1}', AStruct, AStruct(1)),
        (b'{"n":1}', AClass, AClass(1)),
        (b'{"n":1}', ADict, {"n": 1}),
        (b'{"n":1}', AModel, AModel(n=1)),
        (b'{"inner":{"n":1}}', Outer, Outer(AModel(n=1))),
        (b'[{"n":1}]', list[AModel], [AModel(n=1)]),
        (b'{"n":1}', dict, {"n": 1}),
        (b"", Any, None),
        (b'{"n":1}', AStruct | None, AStruct(1)),
    ],
)
def test_a_body_is_read_as_its_annotation_says(data: bytes, kind: Any, value: object) -> None:
    assert decode_body(data, kind) == value


@pytest.mark.parametrize("data", [b"1", b"null", b'{"a":[1.5,null]}', b'"x"', b"1e400"])
def test_object_means_anything(data: bytes) -> None:
    assert decode_body(data, object) == decode_body(data, Any)


def test_object_inside_of_something_means_anything_too() -> None:
    assert decode_body(b'[1,{"a":null}]', list[object]) == [1, {"a": None}]
    assert decode_body(b'{"a":[1,"x"]}', dict[str, object]) == {"a": [1, "x"]}


def test_a_raw_body_is_read_byte_for_byte() -> None:
    for data in (b'{"a" : 1.0}', rb'["\ud800"]', b"1e400"):
        assert bytes(decode_body(data, msgspec.Raw)) == data
    with pytest.raises(BodyError):
        decode_body(b"{", msgspec.Raw)


@pytest.mark.parametrize("kind", [AStruct, AClass, ADict, AModel, Outer, int, list[AModel]])
@pytest.mark.parametrize("data", [b'{"n":"no"}', b"", b'"x"', b"{"])
def test_a_body_that_does_not_fit_is_one_error(data: bytes, kind: Any) -> None:
    with pytest.raises(BodyError) as caught:
        decode_body(data, kind)
    assert caught.value.code == "payload.invalid"
    assert len(caught.value.message) <= 500


def test_a_null_that_is_meant_is_one() -> None:
    assert bytes(encode_body([AFloat(None), AFloat(1.5), None, "null"])) == b'[{"x":null},{"x":1.5},null,"null"]'
    with pytest.raises(BodyError, match="NaN or infinite"):
        encode_body([AFloat(None), math.nan])


@pytest.mark.parametrize(
    ("data", "value"), [(b'"a\\ud83d"', "a\ud83d"), (b"1e400", math.inf), (b"[-1e400]", [-math.inf])]
)
def test_legal_json_that_msgspec_refuses_is_read_all_the_same(data: bytes, value: object) -> None:
    assert decode_body(data, Any) == value


@pytest.mark.parametrize("data", [b"{", b"9" * 5_000, b"[1,]"])
def test_junk_is_no_plain_value(data: bytes) -> None:
    with pytest.raises(BodyError):
        decode_body(data, Any)


def test_what_json_is_never_read_as_is_a_type_error() -> None:
    with pytest.raises(TypeError):
        decode_body(b"1", int | AStruct | AClass)


# ---------------------------------------------------------------- outcomes


def core(answer: Answer) -> dict[str, Any]:
    return {**msgspec.json.decode(answer.core), "details": msgspec.json.decode(answer.details)}


def test_a_value_is_a_success() -> None:
    said = core(succeeded({"a": 1}, host="h"))
    assert (said["status"], said["code"], said["output"], said["processing_host"]) == ("success", "ok", {"a": 1}, "h")


def test_a_result_says_more_than_its_value() -> None:
    said = core(succeeded(Result(AStruct(1), confidence=0.5, cost=2.0, schema="x.v1"), host="h"))
    assert (said["output"], said["confidence"], said["cost"], said["schema"]) == ({"n": 1}, 0.5, 2.0, "x.v1")


@pytest.mark.parametrize(
    "wrong",
    [
        {"confidence": 1.1},
        {"confidence": math.nan},
        {"cost": math.inf},
        {"cost": 10**400},
        {"schema": "\ud800"},
        {"schema": "x"},
    ],
)
def test_a_result_that_says_nonsense_is_refused_where_it_is_made(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Result(1, **wrong)


@pytest.mark.parametrize("wrong", [{"confidence": "sure"}, {"confidence": True}, {"cost": "dear"}, {"schema": 7}])
def test_a_result_of_the_wrong_type_is_refused_in_a_sentence(wrong: dict[str, Any]) -> None:
    ((name, value),) = wrong.items()
    with pytest.raises(TypeError, match=f"Result {name} is {value!r}: a .* is wanted"):
        Result(1, **wrong)


@pytest.mark.parametrize("value", [object(), Result(object()), "x" * MAX_OUTPUT_BYTES, {"rate": math.nan}])
def test_a_result_that_cannot_travel_fails_with_a_clear_text(value: object) -> None:
    said = core(succeeded(value, host="h"))
    assert (said["status"], said["code"]) == ("failed", "handler.error")
    assert "result" in said["error_message"]


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("error", "status", "code", "wait_ms"),
    [
        (ValueError("x"), "retryable", "handler.error", -1),
        (RecursionError(), "retryable", "handler.error", -1),
        (MemoryError(), "retryable", "handler.error", -1),
        (SystemExit(3), "retryable", "handler.error", -1),
        (KeyboardInterrupt(), "retryable", "handler.error", -1),
        (Mute(), "retryable", "handler.error", -1),
        (ValueError("x" * 100_000), "retryable", "handler.error", -1),
        (ValueError("\ud800"), "retryable", "handler.error", -1),
        (NoRoute("nobody"), "retryable", "handler.error", -1),
        (Retry(), "retryable", "handler.retry", -1),
        (Retry(after=2.5, message="later"), "retryable", "handler.retry", 2500),
        (Retry(after=0), "retryable", "handler.retry", 0),
        (Reject("no_such_order", "none"), "failed", "handler.rejected", -1),
    ],
)
def test_every_exception_is_an_answer(error: BaseException, status: str, code: str, wait_ms: int) -> None:
    answer, waits = raised(error, host="h")
    said = core(answer)
    assert (said["status"], said["code"], waits) == (status, code, wait_ms)
    assert len(said["error_message"]) <= 4_096
    assert answer.status == status
    if isinstance(error, Retry):
        assert said["retry_after_ms"] == error.after_ms


def test_a_rejection_keeps_its_own_code_and_details() -> None:
    answer, _ = raised(Reject("no_such_order", "none", order="ORD-1"), host="h")
    assert core(answer)["details"] == {"reject": "no_such_order", "order": "ORD-1"}


def test_details_that_cannot_be_written_cost_nothing_else() -> None:
    answer, _ = raised(Reject("x", "y", thing=object()), host="h")
    assert core(answer)["code"] == "handler.rejected"
    assert core(answer)["details"] == {"reject": "x"}
    answer, _ = raised(Reject("x", "y", rate=math.nan, order="\ud800"), host="h")
    assert core(answer)["details"] == {"reject": "x", "rate": "nan", "order": "?"}


def test_details_may_have_any_name() -> None:
    own = {"host": "h2", "code": 1, "details": 2, "retry_after_ms": 3, "reject": "mine"}
    error = Reject("no", "why")
    error.details = own
    answer, _ = raised(error, host="h")
    assert core(answer)["details"] == {**own, "reject": "no"}
    assert core(answer)["processing_host"] == "h"


UNREADABLE = {
    "large": "x" * MAX_DETAILS_BYTES,
    "deep": {"deep": deep(62)},
    "junk": msgspec.Raw(b"junk"),
    "out of range": msgspec.Raw(b"1e400"),
    "too long a number": 10**5_000,
    "halves": "\ud800" * 300,
}


@pytest.mark.parametrize("value", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_details_that_nobody_could_read_are_shortened(value: object) -> None:
    answer, _ = raised(Reject("no", "why", more=value, **{f"n{number}": number for number in range(100)}), host="h")
    said = core(answer)
    assert said["details"]["reject"] == "no"
    assert len(answer.details.encode()) < MAX_DETAILS_BYTES
    assert said["error_message"] == "why"


def test_an_exception_that_cannot_speak_gives_its_name() -> None:
    assert "Mute" in text_of(Mute())


# ---------------------------------------------------------------- receipts


def record(status: str = "success", **fields: Any) -> ReceiptRecord:
    return ReceiptRecord(msg_id="m", status=Status(status), **{"code": "ok", **fields})


def test_a_receipt_reads_its_output_as_it_was_asked_for() -> None:
    receipt: Receipt[AStruct] = receipt_of(record(output=msgspec.Raw(b'{"n":1}')), AStruct)
    assert receipt.ok
    assert receipt.output == AStruct(1)
    assert receipt.raise_for_status() is receipt


def test_an_output_that_does_not_fit_is_a_failed_receipt_and_no_exception() -> None:
    receipt = receipt_of(record(output=msgspec.Raw(b'{"n":"x"}')), AStruct)
    assert not receipt.ok
    assert (receipt.status, receipt.code, receipt.output) == (Status.FAILED, "payload.invalid", None)
    assert receipt.details["ended"] == "success"
    with pytest.raises(Rejected):
        receipt.raise_for_status()


def test_the_output_of_what_failed_is_not_pressed_into_a_type() -> None:
    receipt = receipt_of(record("failed", code="handler.rejected", output=msgspec.Raw(b'{"why":1}')), AStruct)
    assert receipt.output == {"why": 1}
    assert receipt.code == "handler.rejected"


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        ("failed", "route.not_found", NoRoute),
        ("retryable", "route.no_candidate", NoRoute),
        ("retryable", "overloaded", Overloaded),
        ("retryable", "timeout.total", Timeout),
        ("retryable", "ttl.expired", Timeout),
        ("failed", "handler.rejected", Rejected),
        ("failed", "payload.invalid", Rejected),
    ],
)
def test_a_receipt_raises_the_class_of_its_code(status: str, code: str, kind: type[ReachError]) -> None:
    receipt = receipt_of(record(status, code=code, error_message="why", retry_after_ms=7, attempts=2))
    with pytest.raises(kind) as caught:
        receipt.raise_for_status()
    error = caught.value
    assert isinstance(error, ReachError)
    assert (error.code, error.message, error.retry_after_ms) == (code, "why", 7)
    assert error.retryable == (status == "retryable")
    assert error.details == {"msg_id": "m", "attempts": 2}


def test_receipts_of_all_legs_are_one_thing() -> None:
    good = receipt_of(record(output=msgspec.Raw(b"1"), target_agent="a"))
    bad = receipt_of(record("failed", code="handler.rejected", leg=1, target_agent="b"))
    both = Receipts([good, bad])
    assert (len(both), both[0], both[1:], list(both)) == (2, good, (bad,), [good, bad])
    assert not both.ok
    assert both.outputs == [1]
    assert repr(both) == "Receipts(a: ok, b: handler.rejected)"
    with pytest.raises(Rejected):
        both.raise_for_status()
    assert Receipts([good]).raise_for_status().ok
