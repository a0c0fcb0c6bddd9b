"""The looks at JSON bytes that msgspec is not asked for."""

import pytest

from reach.envelope import scan
from reach.envelope.codec import decode
from tests.envelopes import EXAMPLE, with_body


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
