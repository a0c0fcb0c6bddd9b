"""Bytes to an envelope and back: what is taken, what is refused and how."""

import json

import msgspec
import pytest

from reach.envelope.codec import decode, encode
from reach.envelope.message import Envelope, Payload, Source, Target
from reach.errors import EnvelopeError
from tests.envelopes import EXAMPLE, MSG_ID, raw, with_body


def refused(data: bytes, **options: int) -> EnvelopeError:
    with pytest.raises(EnvelopeError) as caught:
        decode(data, **options)
    return caught.value


def with_priority(text: bytes) -> bytes:
    return EXAMPLE.replace(b'"priority":5', text)


def test_the_example_is_read_field_by_field() -> None:
    envelope = decode(EXAMPLE)
    assert envelope.msg_id == MSG_ID
    assert envelope.type == "intent.request"
    assert envelope.timestamp == 1735113600123
    assert envelope.source == Source(agent_id="intent-parser-01", node_id="node-a")
    assert envelope.target == Target(pattern="capability:refund", scope="all")
    assert envelope.payload.schema == "refund.request.v1"
    assert envelope.payload.body_bytes == b'{"order_id":"ORD-20241225-001"}'
    assert envelope.traces.previous_hops == ("intent-parser-01",)
    assert envelope.traces.current_hop == msgspec.Raw(b"2")


def test_defaults() -> None:
    envelope = decode(raw())
    assert (envelope.version, envelope.round, envelope.ttl_ms, envelope.priority) == ("1.0", 1, 30_000, 5)
    assert (envelope.max_attempts, envelope.target.scope, envelope.headers) == (6, "one", {})
    assert envelope.timeouts.total_ms is None


@pytest.mark.parametrize(
    "body",
    [
        b"1.0",
        b"1e400",
        b"-0",
        b"9223372036854775808",
        b"1" * 6000,
        b"null",
        b"false",
        b'""',
        b'"\\u0041\\/\\n\\ud83d\\ude00"',
        b'"\\ud800"',
        b'{"cut":"ab\\ud83d","msg_id":1,"msg_id":2}',
        b'"back\\\\\\\\slash\\\\"',
        b'"\\\\ud800 is no escape"',
        b'{ "a" :\t[ 1 ,\r\n2 ] }',
        b'{"a":1,"a":2}',
        b'{"reply_to":"x","payload":{"body":1},"body":{"body":2}}',
        '"π 😀 \u2028"'.encode(),
        b"[" * 62 + b"]" * 62,
        b"[" + b"{}," * 500 + b"{}]",
    ],
)
@pytest.mark.parametrize("space", [b"", b" ", b"\n\t"])
def test_the_body_is_carried_byte_for_byte(body: bytes, space: bytes) -> None:
    envelope = decode(with_body(body, space=space))
    assert envelope.payload.body_bytes == body
    assert encode(envelope).count(b'"body":' + body) == 1
    # the same on the careful way, which a null or an escaped key takes
    assert decode(with_body(body).replace(b'"priority":5', b'"priority":null')).payload.body_bytes == body
    assert decode(with_body(body).replace(b'"priority"', b'"\\u0070riority"')).payload.body_bytes == body


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "json"),
        (b"{", "json"),
        (b"{}{}", "json"),
        (b"\xef\xbb\xbf" + EXAMPLE, "json"),
        (EXAMPLE[:-1], "json"),
        (EXAMPLE + b"x", "json"),
        (with_body(b"NaN"), "json"),
        (with_body(b"-Infinity"), "json"),
        (with_body(b"tru"), "json"),
        (with_body(b"01"), "json"),
        (with_body(b"'a'"), "json"),
        (with_body(b'"\\ud8"'), "json"),
        (with_body(b'"\\x"'), "json"),
        (with_body(b'"\x01"'), "json"),
        (with_body(b"[1,]"), "json"),
        (with_priority(b'"priority":NaN'), "json"),
        (with_priority(b'"priority":true,,'), "json"),
        (with_priority(b'"priority":"high"')[:-30], "json"),
        (b"[]", "object"),
        (b"null", "object"),
        (b'"text"', "object"),
        (b" 12 ", "object"),
        (b"\xff", "utf8"),
        (with_body(b'"\xff"'), "utf8"),
        (with_body(b'"\xed\xa0\x80"'), "utf8"),
        (with_body(b'"\xc0\xaf"'), "utf8"),
        (with_body(b"[" * 63 + b"]" * 63), "depth"),
        (with_body(b"[" * 2000 + b"]" * 2000), "depth"),
        (b"[" * 100_000, "depth"),
        (b'{"a":' * 100_000, "depth"),
        (with_body(b'["]",' * 63 + b'"["' + b"]" * 63), "depth"),
        (with_body(b'["\\"]",' * 63 + b'"["' + b"]" * 63), "depth"),
        (with_priority(b'"priority":5,"priority":6'), "duplicate"),
        (with_priority(b'"priority":5,"priority":5'), "duplicate"),
        (with_priority(b'"priority":5,"\\u006dsg_id":"x"'), "duplicate"),
        (with_priority(b'"payload":{"body":1},"priority":5'), "duplicate"),
        (with_priority(b'"zz":1,"zz":2'), "duplicate"),
        (with_priority(b'"headers":{"a":"1","a":"2"}'), "duplicate"),
        (with_priority(b'"headers":{"\\u0061":"1","a":"2"}'), "duplicate"),
        (EXAMPLE.replace(b'"node_id"', b'"agent_id"'), "duplicate"),
        (EXAMPLE.replace(b'"node_id"', b'"agent\\u005fid"'), "duplicate"),
        (EXAMPLE.replace(b'"scope"', b'"pattern"'), "duplicate"),
        (EXAMPLE.replace(b'"current_hop":2', b'"previous_hops":[]'), "duplicate"),
        (EXAMPLE.replace(b'"schema":"refund.request.v1"', b'"body":{"a":1}'), "duplicate"),
        (with_priority(b'"priority":null,"priority":5'), "duplicate"),
        (EXAMPLE.replace(b"conv-8877", b"\\ud800"), "surrogate"),
        (with_priority(b'"headers":{"a":"\\udfff"}'), "surrogate"),
    ],
)
def test_malformed(data: bytes, reason: str) -> None:
    error = refused(data)
    assert (error.code, error.details["reason"]) == ("envelope.malformed", reason)
    assert not error.retryable


def test_what_is_said_of_a_wrong_text_does_not_repeat_it() -> None:
    error = refused(EXAMPLE.replace(b'"scope":"all"', b'"scope":"%s"' % (b"x" * 900_000)))
    assert (error.code, len(error.message) < 300) == ("target.bad_scope", True)


def test_two_headers_that_differ_only_in_an_emoji_are_two() -> None:
    data = with_priority(b'"headers":{"\\ud83d\\ude00":"1","\\ud83d\\ude01":"2"}')
    assert decode(data).headers == {"😀": "1", "😁": "2"}


def test_headers_may_be_called_like_fields() -> None:
    data = with_priority(b'"headers":{"priority":"1","msg_id":"2","body":"{}","":""},"reply_to":"mb"')
    assert decode(data).headers == {"priority": "1", "msg_id": "2", "body": "{}", "": ""}


def test_depth_counts_from_the_envelopes_own_brace() -> None:
    depth_64 = with_body(b"[" * 62 + b"1" + b"]" * 62)
    assert decode(depth_64).payload.body_bytes.count(b"[") == 62
    brackets_in_text = with_body(b'"' + b"[{" * 5000 + b'\\""')
    assert decode(brackets_in_text).payload.body_bytes.count(b"[") == 5000


def test_too_large() -> None:
    assert decode(EXAMPLE, max_bytes=len(EXAMPLE)).msg_id == MSG_ID
    error = refused(EXAMPLE, max_bytes=len(EXAMPLE) - 1)
    assert error.code == "envelope.too_large"
    assert error.details == {"bytes": len(EXAMPLE), "max_bytes": len(EXAMPLE) - 1}
    assert refused(b" " * ((1 << 20) + 1)).code == "envelope.too_large"


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"extra": 1}, "extra"),
        ({"extra": None}, "extra"),
        ({"ttl": 5, "msg_id": 7}, "ttl"),
        ({"source": {"agent_id": "a", "agentId": "b"}}, "source.agentId"),
        ({"target": {"pattern": "agent_id:b", "group": 1}}, "target.group"),
        ({"payload": {"bdoy": 1}}, "payload.bdoy"),
        ({"traces": {"hops": []}}, "traces.hops"),
        ({"timeouts": {"total": 5}}, "timeouts.total"),
        ({"needs": {"gpu": 1}}, "needs.gpu"),
        ({"budget": {"time": 1}}, "budget.time"),
        ({"übrig": 1}, "übrig"),
        ({"x`y - at `$.z`": 1}, "x`y - at `$.z`"),
        ({"z" * 500: 1}, "z" * 128),
    ],
)
def test_unknown_field(changes: dict[str, object], field: str) -> None:
    error = refused(json.dumps({**json.loads(raw()), **changes}, ensure_ascii=False).encode())
    assert (error.code, error.details) == ("envelope.unknown_field", {"field": field})


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"msg_id": ...}, "msg_id"),
        ({"type": ...}, "type"),
        ({"timestamp": ...}, "timestamp"),
        ({"source": ...}, "source"),
        ({"target": ...}, "target"),
        ({"msg_id": None}, "msg_id"),
        ({"source": {}}, "source.agent_id"),
        ({"source": {"agent_id": None}}, "source.agent_id"),
        ({"source": None}, "source"),
        ({"target": {"scope": "one"}}, "target.pattern"),
    ],
)
def test_missing_field(changes: dict[str, object], field: str) -> None:
    error = refused(raw(**changes))
    assert (error.code, error.details) == ("envelope.missing_field", {"field": field})


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"msg_id": 5}, "msg_id"),
        ({"type": []}, "type"),
        ({"timestamp": "1"}, "timestamp"),
        ({"timestamp": 1.0}, "timestamp"),
        ({"timestamp": True}, "timestamp"),
        ({"timestamp": 2**63}, "timestamp"),
        ({"timestamp": 2**64}, "timestamp"),
        ({"timestamp": -(2**63) - 1}, "timestamp"),
        ({"priority": False}, "priority"),
        ({"round": 1.5}, "round"),
        ({"source": "a"}, "source"),
        ({"source": {"agent_id": 1}}, "source.agent_id"),
        ({"target": "agent_id:b"}, "target"),
        ({"payload": [1]}, "payload"),
        ({"payload": {"schema": 1}}, "payload.schema"),
        ({"traces": {"previous_hops": "a"}}, "traces.previous_hops"),
        ({"traces": {"previous_hops": ["a", 1]}}, "traces.previous_hops"),
        ({"timeouts": {"total_ms": "5"}}, "timeouts.total_ms"),
        ({"min_confidence": 1.1}, "min_confidence"),
        ({"min_confidence": -0.1}, "min_confidence"),
        ({"min_confidence": True}, "min_confidence"),
        ({"headers": {"a": 1}}, "headers"),
        ({"headers": {"a": None}}, "headers"),
        ({"process_order": ["a"]}, "process_order"),
        ({"process_order": [["a"], [1]]}, "process_order"),
        ({"needs": {"context_tokens": 1.5}}, "needs.context_tokens"),
        ({"budget": {"cost": "1"}}, "budget.cost"),
        ({"version": 1}, "version"),
    ],
)
def test_bad_field(changes: dict[str, object], field: str) -> None:
    error = refused(raw(**changes))
    assert (error.code, error.details) == ("envelope.bad_field", {"field": field})


def test_a_number_out_of_all_range_is_a_bad_field() -> None:
    assert refused(with_priority(b'"priority":1e400')).details == {"field": "priority"}
    assert refused(with_priority(b'"priority":' + b"9" * 5000)).details == {"field": "priority"}


@pytest.mark.parametrize("spaces", [b"", b"  "], ids=["compact", "spaced"])
@pytest.mark.parametrize(
    "value", [b"2", b"-4", b"null", b'"two"', b"1e400", b'{"a":[1,{"a":2}],"b":null}', b"[]", rb'"\ud83c"', b"true"]
)
def test_the_current_hop_is_not_checked(value: bytes, spaces: bytes) -> None:
    data = EXAMPLE.replace(b'"current_hop":2', b'"current_hop":' + spaces + value)
    envelope = decode(data)
    assert bytes(envelope.traces.current_hop) == value
    assert envelope.traces.previous_hops == ("intent-parser-01",)


@pytest.mark.parametrize("scope", ["some", "", "ALL", 1, {}, "x' - at `$.a`"])
def test_bad_scope(scope: object) -> None:
    assert refused(raw(target={"pattern": "agent_id:b", "scope": scope})).code == "target.bad_scope"


def test_a_pattern_that_is_no_text() -> None:
    error = refused(raw(target={"pattern": 5}))
    assert (error.code, error.details) == ("target.bad_pattern", {"field": "target.pattern"})


def test_null_in_an_optional_field_means_absent() -> None:
    optional = set(Envelope.__struct_fields__) - {"msg_id", "type", "timestamp", "source", "target"}
    assert decode(raw(**dict.fromkeys(optional))) == decode(raw())
    parts = {
        "source": {"agent_id": "a", "name": None, "node_id": None, "zone": None},
        "target": {"pattern": "agent_id:b", "scope": None},
        "payload": {"schema": None},
        "traces": dict.fromkeys(("previous_hops", "traceparent", "tracestate")),
        "timeouts": dict.fromkeys(("network_ms", "processing_ms", "total_ms")),
    }
    assert decode(raw(**parts)) == decode(raw())


def test_int64_at_its_ends() -> None:
    assert decode(raw(timestamp=2**63 - 1)).timestamp == 2**63 - 1
    assert decode(raw(timestamp=-(2**63))).timestamp == -(2**63)


def test_space_around_and_order_do_not_matter() -> None:
    pretty = json.dumps(dict(reversed(json.loads(EXAMPLE).items())), indent=3).encode()
    envelope = decode(b" \r\n\t" + pretty + b"\n ")
    assert envelope.payload.body_bytes.split() == b'{ "order_id": "ORD-20241225-001" }'.split()
    assert envelope.msg_id == MSG_ID


def test_encode_leaves_defaults_out_and_is_read_back() -> None:
    least = decode(raw())
    assert json.loads(encode(least)) == json.loads(raw())
    assert decode(encode(decode(EXAMPLE))) == decode(EXAMPLE)


def test_an_empty_body_is_none() -> None:
    envelope = msgspec.structs.replace(decode(raw()), payload=Payload(schema="a.v1", body=msgspec.Raw(b"")))
    assert json.loads(encode(envelope)) == json.loads(raw(payload={"schema": "a.v1"}))


def test_a_text_that_is_no_unicode_cannot_be_encoded() -> None:
    envelope = Envelope(
        msg_id=MSG_ID, type="request", timestamp=1, source=Source(agent_id="a"), target=Target(pattern="\ud800")
    )
    with pytest.raises(EnvelopeError) as caught:
        encode(envelope)
    assert (caught.value.code, caught.value.msg_id) == ("envelope.bad_field", MSG_ID)


def test_the_error_says_whom_to_answer() -> None:
    data = raw(extra=1, reply_to="mb.1", correlation_id="c", task_id="t")
    error = refused(data)
    assert (error.reply_to, error.msg_id, error.correlation_id, error.task_id, error.source) == (
        "mb.1",
        MSG_ID,
        "c",
        "t",
        "a",
    )
