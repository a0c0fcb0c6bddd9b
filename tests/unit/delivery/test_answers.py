"""Answers: what an agent may send, byte for byte, and what junk becomes."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reach.delivery.answers import code_answer, kept_answer, make_answer, read_answer, refusal
from reach.delivery.retry import code_of
from reach.envelope.ledger import Leg, LegState
from reach.errors import EnvelopeError

CORE = [
    "status",
    "code",
    "output",
    "error_message",
    "schema",
    "processing_host",
    "confidence",
    "partial",
    "cost",
    "via",
    "retry_after_ms",
]


def test_the_core_has_exactly_its_members() -> None:
    answer = make_answer("success", output=b'{"a": 1.0}', details={"x": 1})
    assert list(json.loads(answer.core)) == CORE
    assert (answer.status, answer.code, answer.details) == ("success", "ok", '{"x":1}')


@pytest.mark.parametrize(
    "body", [b"1.0", b"1e400", b"9223372036854775808", b'"\\ud83c\\udf78"', b'{ "a" :\t[ ] }', b"-0"]
)
def test_an_output_is_carried_byte_for_byte(body: bytes) -> None:
    answer, wait_ms = read_answer(b'{"status":"success","output":' + body + b"}")
    assert b'"output":' + body + b"," in answer.core.encode()
    assert (answer.code, wait_ms) == ("ok", -1)


def test_a_status_is_enough_and_what_the_ledger_knows_is_ignored() -> None:
    for status, code in (("success", "ok"), ("failed", "handler.rejected"), ("retryable", "handler.error")):
        sent = {"status": status, "attempts": 99, "msg_id": "forged", "details": None, "code": None, "partial": None}
        answer, _ = read_answer(json.dumps(sent).encode())
        assert (answer.status, answer.code, answer.details) == (status, code, "{}")
        assert "forged" not in answer.core


def test_a_wait_that_was_asked_for_burns_nothing() -> None:
    def wait(**sent: Any) -> int:
        return read_answer(json.dumps(sent).encode())[1]

    assert wait(status="retryable", code="handler.retry", retry_after_ms=1500) == 1500
    assert wait(status="retryable", code="handler.retry", retry_after_ms=-5) == 0
    assert wait(status="retryable", retry_after_ms=2**62) == 7 * 24 * 3600 * 1000
    assert wait(status="retryable", code="handler.retry") == -1
    assert wait(status="retryable", code="overloaded", retry_after_ms=100) == -1
    assert wait(status="failed", retry_after_ms=100) == -1


@pytest.mark.parametrize(
    "junk",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b"\xff",
        b'{"status":"great"}',
        b'{"status":"success","output":}',
        b'{"status":"success","output":NaN}',
        b'{"status":"success","output":"\xff"}',
        b'{"status":"success","details":[1]}',
        b'{"status":"success","code":"a\\nb"}',
        b'{"status":"success","code":"' + b"x" * 200 + b'"}',
        b'{"status":"success","confidence":7}',
        b'{"status":"success","retry_after_ms":1e99}',
        b'{"status":"success","output":' + b"[" * 2_000 + b"]" * 2_000 + b"}",
        b'{"status":"success","output":"' + b"x" * (1 << 20) + b'"}',
        b'{"status":"success","details":{"n":[' + b"1e9," * 200_000 + b"1]}}",  # written again it is 13 bytes a number
        b'{"status":"success","status":"failed"}',
    ],
)
def test_junk_is_a_handler_error(junk: bytes) -> None:
    answer, wait_ms = read_answer(junk)
    assert (answer.status, answer.code, wait_ms) == ("retryable", "handler.error", -1)
    assert json.loads(answer.details)["reason"]


@given(st.binary(max_size=200))
def test_no_bytes_raise(data: bytes) -> None:
    answer, _ = read_answer(data)
    assert list(json.loads(answer.core)) == CORE


@pytest.mark.parametrize("core", ["junk", "[]", '{"status":5}', "\ud800"])
def test_an_answer_that_somebody_spoilt_in_the_ledger_is_still_an_end(core: str) -> None:
    answer = kept_answer(Leg(state=LegState.RETURNED, core=core))
    assert (answer.status, answer.code) == ("retryable", "handler.error")
    assert list(json.loads(answer.core)) == CORE
    assert code_of(Leg(state=LegState.RETURNED, core=core)) == ""


def test_a_code_of_the_table_knows_its_status() -> None:
    assert code_answer("route.not_found", "nobody").status == "failed"
    assert code_answer("route.no_candidate", "nobody now").status == "retryable"


def test_a_refusal_is_a_whole_receipt() -> None:
    error = EnvelopeError("ttl.zero", "ttl_ms is 0 \ud800", details={"field": "ttl_ms\udfff"}, msg_id="m", reply_to="r")
    receipt = json.loads(refusal(error, at_ms=5, durability="everysec"))
    assert receipt["status"] == "failed"
    assert receipt["code"] == "ttl.zero"
    assert receipt["correlation_id"] == receipt["task_id"] == receipt["msg_id"] == "m"
    assert (receipt["finished_at"], receipt["durability"], receipt["stored"]) == (5, "everysec", False)
    assert len(receipt) == 27
