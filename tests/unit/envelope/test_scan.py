"""The looks at JSON bytes that msgspec is not asked for."""

from collections.abc import Callable

import msgspec
import pytest

from reach.envelope import scan
from reach.envelope.codec import decode
from reach.envelope.records import (
    decode_beat,
    decode_control,
    decode_notice,
    decode_policy,
    decode_receipt,
    decode_stored_registration,
)
from reach.envelope.rules import MAX_HEADERS_BYTES
from reach.errors import EnvelopeError, RecordError
from tests.envelopes import EXAMPLE, with_body


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Where a key or a value was looked at, one by one: the loop that is Python's."""
    found: list[int] = []
    skip = scan._skip

    def counted(text: str, at: int) -> tuple[object, int]:
        found.append(at)
        return skip(text, at)

    monkeypatch.setattr(scan, "_skip", counted)
    return found


def test_skeleton_leaves_the_brackets_outside_strings() -> None:
    assert scan.skeleton(b'{"a":["}]",{"\\"]":"\\\\"}]}') == b"[[[]]]"
    assert scan.skeleton(b"") == b""


@pytest.mark.parametrize(
    ("data", "deep"),
    [
        (b"[" * 64 + b"]" * 64, False),
        (b"[" * 65 + b"]" * 65, True),
        (b'{"a":' * 65 + b"1" + b"}" * 65, True),
        (b"[" + b"[]," * 1000 + b"[]]", False),
        (b"[" * 65, True),
        (b"]" * 1000, False),  # no opener: no depth; that it is no JSON is found elsewhere
        (b"][" * 65, True),
    ],
)
def test_too_deep(data: bytes, deep: bool) -> None:
    assert scan.too_deep(data) is deep


def test_members_say_where_everything_stands() -> None:
    text = '  { "a" : 1 ,\n"\\u0062":{"c":[1,{}]}, "a":null } '
    found = scan.members(text)
    assert [(m.key, text[m.value_start : m.end]) for m in found] == [("a", "1"), ("b", '{"c":[1,{}]}'), ("a", "null")]
    assert scan.first_duplicate(found) == "a"
    assert scan.first_duplicate(found[:2]) is None
    assert [scan.is_object(text, m) for m in found] == [False, True, False]
    assert [scan.is_null(text, m) for m in found] == [False, False, True]
    assert scan.members("{}") == []


@pytest.mark.parametrize("member", [b'"a":1', b'"":{}', b'"a" : [1.5, {"b":null}]'])
def test_looking_at_members_ends_after_so_many(member: bytes, looked_at: list[int]) -> None:
    text = scan.latin(b"{" + b",".join([member] * scan.MAX_MEMBERS) + b"}")
    assert len(scan.members(text)) == scan.MAX_MEMBERS
    looked_at.clear()
    with pytest.raises(scan.TooManyMembers, match=f"more than {scan.MAX_MEMBERS}"):
        scan.members(scan.latin(b"{" + b",".join([member] * 100_000) + b"}"))
    assert len(looked_at) == 2 * scan.MAX_MEMBERS  # a key and a value each


JUNK = b"{" + b",".join([b'"a":1'] * 150_000) + b"}"


@pytest.mark.parametrize(
    ("data", "field"),
    [
        (JUNK, ""),
        (EXAMPLE.replace(b'"headers":{}', b"")[:-1] + b',"headers":' + JUNK.replace(b"1", b'"1"') + b"}", "headers"),
        (EXAMPLE.replace(b'"node_id"', JUNK[1:-1] + b',"node_id"'), "source"),
    ],
    ids=["outer", "headers", "source"],
)
def test_an_envelope_of_very_many_members_is_malformed_after_a_look_at_some(
    data: bytes, field: str, looked_at: list[int]
) -> None:
    with pytest.raises(EnvelopeError) as caught:
        decode(data, max_bytes=2 << 20)
    assert (caught.value.code, caught.value.details) == ("envelope.malformed", {"reason": "members", "field": field})
    assert len(looked_at) < 3 * scan.MAX_MEMBERS


@pytest.mark.parametrize(
    "read", [decode_control, decode_receipt, decode_beat, decode_notice, decode_policy, decode_stored_registration]
)
@pytest.mark.parametrize("first", [b'"status":"success"', b'"notice":"done"', b'"op":"leave"', b'"share":"\\ud800"'])
def test_a_record_of_very_many_members_is_junk_after_a_look_at_some(
    read: Callable[[bytes], object], first: bytes, looked_at: list[int]
) -> None:
    with pytest.raises(RecordError) as caught:
        read(b"{" + first + b"," + JUNK[1:])
    assert len(caught.value.message) < 300
    assert len(looked_at) <= 2 * scan.MAX_MEMBERS


def test_the_headers_that_fit_are_as_many_as_are_looked_at() -> None:
    names = ["", *map(chr, range(128)), *(chr(n) for n in range(128, 2048))]
    fit = names[: 1 + 128 + (MAX_HEADERS_BYTES - 128) // 2]
    data = EXAMPLE[:-1] + b' ,"headers":' + msgspec.json.encode(dict.fromkeys(fit, "")) + b"}"
    assert len(decode(data).headers) == len(fit)


def test_the_quick_look_knows_the_usual_envelope() -> None:
    assert scan.surely_unique(EXAMPLE, decode(EXAMPLE).payload.body_bytes)
    assert scan.surely_unique(EXAMPLE.replace(b'"body":', b'"body": '), decode(EXAMPLE).payload.body_bytes)
    twice = with_body(b'{"msg_id":1,"msg_id":2}')
    assert scan.surely_unique(twice, decode(twice).payload.body_bytes)


def test_the_quick_look_never_says_yes_to_a_key_twice() -> None:
    assert not scan.surely_unique(EXAMPLE.replace(b"priority", b"msg_id"), b'{"order_id":"ORD-20241225-001"}')
    assert not scan.surely_unique(b'{"\\u0061":1}', b"")
    assert not scan.surely_unique(b'{"a":1,"a" :1}', b"")
    assert scan.surely_unique(b'{"a":1,"b":2}', b"")


@pytest.mark.parametrize(
    ("data", "valid"),
    [
        (b'"\\ud800"', True),
        (b'"\\\\ud800"', True),
        (b'"\\\\\\ud800"', True),
        (b'"\\ud80"', False),
        (b"\\ud800", False),
        (b"[1", False),
    ],
)
def test_is_json(data: bytes, valid: bool) -> None:
    assert scan.is_json(data) is valid
