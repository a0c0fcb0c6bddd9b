"""The codec against anything: what it takes is carried untouched, what it refuses is refused by one typed error."""

import contextlib
import json
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reach.envelope import records, rules
from reach.envelope.codec import decode, encode
from reach.envelope.message import Budget, Envelope, Needs, Payload, Source, Target, Timeouts, Traces
from reach.envelope.receipt import ReceiptRecord, Status
from reach.errors import EnvelopeError, RecordError, RegistrationRefused
from tests.envelopes import EXAMPLE, fields, raw, with_body

INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(max_size=20)
FINITE = st.floats(allow_nan=False, allow_infinity=False)

SPACE = st.text(" \t\r\n", max_size=2)
NUMBERS = st.sampled_from(
    ["0", "-0", "1.0", "1e400", "-1E-400", "9223372036854775808", "1" * 400, "0.10", "1e+5", "18446744073709551616"]
)
ESCAPES = st.sampled_from(
    ['\\"', "\\\\", "\\/", "\\n", "\\u0041", "\\u006dsg_id", "\\ud83d\\ude00", "\\ud83d", "\\uDFFF", "é", "😀"]
)
PLAIN = st.text(st.characters(exclude_characters='"\\', exclude_categories=("Cs", "Cc")), max_size=5)
STRINGS = st.lists(ESCAPES | PLAIN, max_size=4).map(lambda parts: '"' + "".join(parts) + '"')
KEYS = STRINGS | st.sampled_from(['"msg_id"', '"body"', '"reply_to"', '"payload"'])


def spaced(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(SPACE, inner, SPACE).map("".join)


def arrays(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(spaced(inner), max_size=4).map(lambda items: "[" + ",".join(items) + "]")


def objects(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    members = st.tuples(spaced(KEYS), spaced(inner)).map(":".join)
    return st.lists(members, max_size=4).map(lambda items: "{" + ",".join(items) + "}")


#: JSON as people and programs write it: odd numbers, odd spacing, escapes, keys twice
JSON_TEXT = st.recursive(
    NUMBERS | STRINGS | st.sampled_from(["true", "false", "null", "{}", "[]"]),
    lambda inner: arrays(inner) | objects(inner),
    max_leaves=12,
)

ENVELOPES = st.builds(
    Envelope,
    msg_id=TEXT,
    type=TEXT,
    timestamp=INT64,
    source=st.builds(Source, agent_id=TEXT, name=st.none() | TEXT, node_id=st.none() | TEXT, zone=st.none() | TEXT),
    target=st.builds(Target, pattern=TEXT, scope=st.sampled_from(["one", "all"])),
    version=TEXT,
    task_id=st.none() | TEXT,
    round=INT64,
    correlation_id=st.none() | TEXT,
    order_key=st.none() | TEXT,
    ttl_ms=INT64,
    priority=INT64,
    payload=st.builds(
        Payload,
        schema=st.none() | TEXT,
        body=JSON_TEXT.map(lambda text: msgspec.Raw(text.encode())) | st.just(msgspec.Raw()),
    ),
    traces=st.builds(Traces, previous_hops=st.lists(TEXT, max_size=3).map(tuple), traceparent=st.none() | TEXT),
    reply_to=st.none() | TEXT,
    in_reply_to=st.none() | TEXT,
    timeouts=st.builds(Timeouts, network_ms=st.none() | INT64, total_ms=st.none() | INT64),
    max_attempts=INT64,
    min_confidence=st.none() | st.floats(0, 1),
    needs=st.none() | st.builds(Needs, context_tokens=st.none() | INT64, tier=st.none() | TEXT | INT64),
    budget=st.none() | st.builds(Budget, hops=st.none() | INT64, cost=st.none() | FINITE),
    process_order=st.none() | st.lists(st.lists(TEXT, max_size=2).map(tuple), max_size=2).map(tuple),
    not_before=st.none() | INT64,
    headers=st.dictionaries(TEXT | st.sampled_from(["msg_id", "body", "priority"]), TEXT, max_size=3),
)


@given(ENVELOPES)
def test_round_trip(envelope: Envelope) -> None:
    assert decode(encode(envelope)) == envelope


@given(JSON_TEXT, SPACE)
def test_the_body_is_carried_byte_for_byte(body: str, space: str) -> None:
    data = body.encode()
    carried = decode(with_body(data, space=space.encode()))
    assert carried.payload.body_bytes == data
    assert b'"body":' + data in encode(carried)


@given(JSON_TEXT)
def test_the_output_of_a_receipt_is_carried_byte_for_byte(output: str) -> None:
    record = records.decode_receipt(f'{{"status":"success","output":{output}}}'.encode())
    assert bytes(record.output) == output.encode()
    assert records.decode_receipt(records.encode_receipt(record)) == record


@given(st.sampled_from(Status), INT64, st.none() | TEXT, st.dictionaries(TEXT, st.none() | INT64 | TEXT, max_size=3))
def test_receipts_round_trip(status: Status, leg: int, text: str | None, details: dict[str, Any]) -> None:
    record = ReceiptRecord(status=status, code="x", leg=leg, error_message=text, schema=text, details=details)
    assert records.decode_receipt(records.encode_receipt(record)) == record


def taken(data: bytes) -> Envelope | None:
    """What decode and check say: an envelope, or None for the one typed error, which must be whole."""
    told: EnvelopeError
    try:
        envelope = decode(data)
        rules.check(envelope, partitions=1, partition=0, known_types={"intent.request"})
    except EnvelopeError as error:
        told = error
    else:
        assert decode(encode(envelope)) == envelope
        return envelope
    assert told.code.split(".")[0] in {"envelope", "target", "type", "ttl", "loop"}
    json.dumps(told.details).encode()
    return None


@given(st.binary(max_size=200))
@example(b"\x00")
@example(b"\xef\xbb\xbf{}")
def test_arbitrary_bytes_give_only_the_typed_error(data: bytes) -> None:
    assert taken(data) is None
    for read in (records.decode_receipt, records.decode_notice, records.decode_beat, records.decode_control):
        with contextlib.suppress(RecordError):  # `{}` is a beat; any other error comes through and fails
            read(data)
    with pytest.raises(RegistrationRefused):
        records.read_registration(data, env="dev")


SPLICES = st.sampled_from(
    [
        b"",
        b'"',
        b"\\",
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b"null",
        b"\xff",
        b"\\ud800",
        b"0",
        b' "msg_id":1,',
        b"[" * 70,
        b"e9",
    ]
)
BASES = st.sampled_from(
    [EXAMPLE, raw(headers={"a": "1"}, timeouts={"total_ms": 5}), with_body(b'[{"msg_id":"\\ud83d"},1e400]')]
)


@settings(max_examples=300)
@given(BASES, st.lists(st.tuples(st.integers(0, 500), st.integers(0, 12), SPLICES), min_size=1, max_size=3))
def test_broken_envelopes_are_refused_as_an_independent_reader_would(
    base: bytes, cuts: list[tuple[int, int, bytes]]
) -> None:
    data = base
    for place, length, splice in cuts:
        at = place % (len(data) + 1)
        data = data[:at] + splice + data[at + length :]
    if taken(data) is None:
        return
    twice = keys_twice(data)
    assert not twice, f"accepted with {twice} twice"


@given(BASES, st.integers(0, 500), st.integers(0, 500), st.integers(1, 120))
def test_a_piece_that_stands_there_twice(base: bytes, start: int, to: int, length: int) -> None:
    piece, at = base[start % len(base) :][:length], to % len(base)
    data = base[:at] + piece + base[at:]
    if taken(data) is not None:
        assert not keys_twice(data)


def keys_twice(data: bytes) -> list[str]:
    """By Python's own decoder: the keys that stand twice in the envelope or its parts. Raises what it cannot read."""

    def pairs(found: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
        return found

    def nothing(word: str) -> None:
        raise ValueError(word)

    whole = json.loads(data.decode(), object_pairs_hook=pairs, parse_int=str, parse_float=str, parse_constant=nothing)
    objects = [
        whole,
        *(value for key, value in whole if key in fields() or key in {"payload", "traces", "timeouts", "headers"}),
    ]
    names = [
        [member[0] for member in found if isinstance(member, tuple)] for found in objects if isinstance(found, list)
    ]
    return [name for keys in names for name in set(keys) if keys.count(name) > 1]


def calls_of(run: Callable[[], object]) -> int:
    """How many functions are called, in Python and in C."""
    count = 0

    def tick(frame: FrameType, event: str, arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(tick)
    try:
        run()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize(
    "shape",
    [
        lambda n: b"[" * n,
        lambda n: b'"' * n,
        lambda n: b"\\" * n,
        lambda n: b'{"a":' * n,
        lambda n: b"{}" * n,
        lambda n: b'{"msg_id":"' * n,
        lambda n: b'"reply_to":"mb",' * n,
        lambda n: b'"source":{' * n,
        lambda n: b'"source":{"agent_id"' + b" " * n,
        lambda n: raw(headers={f"k{i}": "" for i in range(n // 20)}),
        lambda n: EXAMPLE[:-1] + b"".join(b',"k%d":{}' % i for i in range(n)) + b"}",
        lambda n: with_body(b"[" + b'{"\\ud800":[]},' * n + b"0]"),
        lambda n: with_body(b'"' + b"\\\\" * n + b'"'),
        lambda n: with_body(b"9" * n),
        lambda n: raw(traces={"previous_hops": ["a"] * n}),
        lambda n: raw(target={"pattern": "capability:" + "a+" * n}),
        lambda n: raw(target={"pattern": "capability:" + "a." * n}),
        lambda n: raw(process_order=[["group:g"]] * n, target={"pattern": "group:g", "scope": "all"}),
    ],
)
def test_twice_the_length_is_at_most_twice_the_steps(shape: Callable[[int], bytes]) -> None:
    # Every call below is of a C function that passes once over its bytes, so the number of calls is what could grow.
    half, whole = shape(1000), shape(2000)
    taken(whole)  # what is made once is made before counting
    assert calls_of(lambda: taken(whole)) <= 2 * calls_of(lambda: taken(half)) + 50
