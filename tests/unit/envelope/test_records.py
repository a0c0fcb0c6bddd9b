"""The records beside the envelope: there and back, and junk."""

import json

import msgspec
import pytest

from reach.envelope import records
from reach.envelope.receipt import Notice, ReceiptRecord, Status
from reach.envelope.registration import Beat, Canary, ControlEntry, RoutePolicy
from reach.errors import RecordError

JUNK = [b"", b"{", b"[]", b"5", b"\xff", b"[" * 3000, b'"text"', b" " * (records.MAX_BYTES + 1)]


@pytest.mark.parametrize(
    "decode",
    [records.decode_receipt, records.decode_notice, records.decode_beat, records.decode_policy, records.decode_control],
)
@pytest.mark.parametrize("data", JUNK)
def test_junk_gives_the_typed_error(decode: "object", data: bytes) -> None:
    with pytest.raises(RecordError) as caught:
        decode(data)  # type: ignore[operator]
    assert caught.value.code == "record.malformed"


def test_a_receipt_is_written_with_all_its_fields() -> None:
    written = json.loads(records.encode_receipt(ReceiptRecord(status=Status.SUCCESS)))
    assert written.keys() == {
        *("msg_id", "task_id", "leg", "round", "status", "code", "output", "error_message", "details", "schema"),
        *("correlation_id", "target_agent", "target_instance", "processing_host", "version", "duration_ms", "queue_ms"),
        *("attempts", "retry_count", "confidence", "partial", "cost", "via", "retry_after_ms", "finished_at"),
        *("durability", "stored"),
    }


@pytest.mark.parametrize(
    ("status", "code"), [("success", "ok"), ("failed", "handler.rejected"), ("retryable", "handler.error")]
)
def test_the_least_receipt(status: str, code: str) -> None:
    record = records.decode_receipt(json.dumps({"status": status}).encode())
    assert (record.status.value, record.code, bytes(record.output)) == (status, code, b"null")
    assert records.decode_receipt(b'{"status":"failed","code":"own"}').code == "own"


@pytest.mark.parametrize(
    "output", [b"1e400", b'"\\ud800"', b'{"a":1,"a":2}', b"[ 1 ]", b"9223372036854775808", b"null"]
)
def test_the_output_is_carried_byte_for_byte(output: bytes) -> None:
    for rest in (b"", b',"code":null', b',"unknown":{"output":7}'):
        record = records.decode_receipt(b'{"status":"success","output":' + output + rest + b"}")
        assert bytes(record.output) == output
        assert b'"output":' + output in records.encode_receipt(record)


@pytest.mark.parametrize(
    "data",
    [
        b"{}",
        b'{"status":"done"}',
        b'{"status":null}',
        b'{"status":"success","leg":"0"}',
        b'{"status":"success","output":NaN}',
        b'{"status":"success"',
    ],
)
def test_a_junk_receipt(data: bytes) -> None:
    with pytest.raises(RecordError):
        records.decode_receipt(data)


def test_a_receipt_may_be_bounded() -> None:
    with pytest.raises(RecordError):
        records.decode_receipt(b'{"status":"success"}', max_bytes=10)


def test_a_notice_is_flat() -> None:
    notice = Notice("routed", "m", {"round": 2, "legs": [0]})
    data = records.encode_notice(notice)
    assert json.loads(data) == {"notice": "routed", "msg_id": "m", "round": 2, "legs": [0]}
    assert records.decode_notice(data) == notice
    assert records.decode_notice(b'{"notice":"registered"}') == Notice("registered")
    for junk in (b'{"notice":"new"}', b'{"notice":["routed"]}', b'{"notice":"routed","msg_id":5}'):
        with pytest.raises(RecordError):
            records.decode_notice(junk)


def test_half_a_character_in_a_text_makes_no_junk() -> None:
    halves = rb'"\ud83d cut, \uDE00 cut, \ud83d\ude00 whole, \\ud83d typed"'
    sent = b'{"status":"failed","error_message":%b,"details":{"why":%b},"output":%b}' % (halves, halves, halves)
    receipt = records.decode_receipt(sent)
    said = "\ufffd cut, \ufffd cut, \U0001f600 whole, \\ud83d typed"
    assert (receipt.error_message, receipt.details) == (said, {"why": said})
    assert bytes(receipt.output) == halves
    notice = records.decode_notice(b'{"notice":"progress","msg_id":"m","data":%b}' % halves)
    assert notice.fields == {"data": said}


def test_beats_and_policies_there_and_back() -> None:
    beat = Beat(state="busy", reason="loop blocked", inflight=3, load=40.5, success_rate=0.99, partitions=2)
    assert records.decode_beat(records.encode_beat(beat)) == beat
    assert records.decode_beat(b'{"state":null,"load":7}') == Beat(load=7)
    policy = RoutePolicy(strategy="direct", weights={"a": 0.5}, canary=Canary(schema="a.v2", share=0.1))
    assert records.decode_policy(records.encode_policy(policy)) == policy
    assert records.decode_beat(b'{"state":"busy","mood":1}') == Beat(state="busy")  # a later version says more
    for junk in (b'{"state":"asleep"}', b'{"load":"7"}', b"1"):
        with pytest.raises(RecordError):
            records.decode_beat(junk)


def test_a_control_entry_is_flat_and_its_fields_stay_undecoded() -> None:
    entry = records.decode_control(
        b'{"op":"cancel","reply_to":"mb","msg_id":"m","source": {"agent_id":"a"},"order_key":null}'
    )
    assert (entry.op, entry.reply_to) == ("cancel", "mb")
    assert bytes(entry.fields["source"]) == b'{"agent_id":"a"}'
    again = records.decode_control(records.encode_control(entry))
    assert again == entry

    class Cancel(msgspec.Struct):
        msg_id: str
        order_key: str = "none"

    assert records.control_fields(entry, Cancel) == Cancel("m")
    with pytest.raises(RecordError):
        records.control_fields(ControlEntry(op="cancel"), Cancel)


@pytest.mark.parametrize(
    "data", [b"{}", b'{"op":"reboot"}', b'{"op":5}', b'{"op":"leave","op":"leave"}', b'{"op":"leave","reply_to":5}']
)
def test_a_junk_control_entry(data: bytes) -> None:
    with pytest.raises(RecordError):
        records.decode_control(data)


def test_what_is_said_of_a_kind_that_there_is_not_does_not_repeat_it() -> None:
    with pytest.raises(RecordError) as caught:
        records.decode_notice(b'{"notice":"%s"}' % (b"x" * 900_000))
    assert len(caught.value.message) < 300
