"""What hop records say of a message, as far as somebody who did not send it can know."""

import json
from typing import Any

import msgspec
import pytest

from reach.backend.steps import Answer, Record
from reach.delivery.telling import conversation_of, made, put_receipt, tell_delivered, told_of
from reach.envelope.ledger import Head
from reach.tracing.contents import ReceiptContent
from reach.tracing.hops import HopRecorder
from reach.tracing.record import Told
from reach.tracing.time_base import TimeBase

MSG = "a3f2c1e4-9b8d-4f3a-8c2e-1a2b3c4d5e6f"
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
SENT = {
    "msg_id": MSG,
    "type": "request",
    "timestamp": 1,
    "source": {"agent_id": "tester"},
    "target": {"pattern": "capability:work"},
    "correlation_id": "sent",
    "payload": {"schema": "refund.request.v1", "body": 1},
    "traces": {"traceparent": TRACE},
}


def record(members: str = '"correlation_id":"kept"', envelope: bytes = b"", receipt: bytes = b"") -> Record:
    head = Head("f", "s", "one", "normal", 1, 1, 1, 1, 1, members, round=3)
    return Record(MSG, head, {}, envelope=envelope, receipts={0: receipt} if receipt else {})


def test_the_bytes_of_a_message_say_most() -> None:
    told, traceparent = told_of(record(envelope=json.dumps(SENT).encode()))
    assert told == {"round": 3, "correlation_id": "sent", "type": "request", "schema": "refund.request.v1"}
    assert traceparent == TRACE


@pytest.mark.parametrize("envelope", [b"", b"{", b'{"msg_id": 1}'])
def test_without_them_the_record_knows_the_conversation(envelope: bytes) -> None:
    assert told_of(record(envelope=envelope)) == ({"round": 3, "correlation_id": "kept"}, None)


def test_of_what_is_forgotten_nothing_is_known() -> None:
    assert told_of(None) == ({}, None)


@pytest.mark.parametrize("members", ["", '"correlation_id":1', '"correlation_id":', "\udcff"])
def test_a_record_that_somebody_has_spoilt_belongs_to_no_conversation(members: str) -> None:
    assert conversation_of(record(members)) == ""


def test_the_receipt_of_a_leg_is_that_of_its_record() -> None:
    told: Told = {"schema": "refund.request.v1"}
    put_receipt(told, record(), 0)
    put_receipt(told, None, 0)
    put_receipt(told, record(receipt=b"{}"), 1)
    assert "receipt" not in told
    put_receipt(told, record(receipt=b'{"a":1}'), 0, is_ours=True)
    assert told["receipt"] == ReceiptContent(b'{"a":1}', schema="refund.request.v1", is_ours=True)


def test_a_receipt_that_a_router_makes_says_what_it_was_told() -> None:
    told: Told = {"leg": 1, "agent": "a", "instance": "a.1", "attempt": 2, "round": 3, "correlation_id": "c"}
    facts = made(Answer("success", "ok", "{}"), told, MSG).facts
    assert facts == {
        "msg_id": MSG,
        "correlation_id": "c",
        "leg": 1,
        "target_agent": "a",
        "target_instance": "a.1",
        "attempts": 2,
        "round": 3,
    }
    facts = made(Answer("success", "ok", "{}"), {}, MSG).facts or {}
    assert (facts["correlation_id"], facts["target_agent"], facts["round"]) == (MSG, None, 1)


async def test_a_delivery_is_told_of_each_box_whose_owner_tells_nothing() -> None:
    events: list[dict[str, Any]] = []

    async def write(_: int, batch: bytes) -> None:
        events.extend(msgspec.json.decode(batch))

    hops = HopRecorder(write, TimeBase(lambda: 9, fallback_us=lambda: 9), flush_ms=0)
    told: Told = {"leg": 1, "code": "ok", "agent": "a", "attempt": 2, "hand": "7-0", "final": True, "duration_us": 5}
    told |= {"counts": {"x": 1}, "chosen": "a", "at_us": 7, "receipt": None}
    tell_delivered(hops, 0, MSG, told, ["", "own.0f3c.r", "plain.1", "plain.2"], TRACE)
    await hops.run_once()
    assert [one["point"] for one in events] == ["message.delivered"] * 2
    for one in events:
        assert (one["leg"], one["code"], one["agent"], one["attempt"]) == (1, "ok", "a", 2)
        assert one["at_us"] == 7
        assert one["trace_id"] == TRACE.split("-")[1]
        assert not one.keys() & {"hand", "final", "duration_us", "counts", "chosen", "left_out", "receipt"}
    assert events[0]["span_id"] != events[1]["span_id"]
    assert told["final"], "what was told is as it was"
