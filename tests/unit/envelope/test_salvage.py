"""What is still read of a broken envelope, and what is not."""

import json

import pytest

from reach.envelope.salvage import MAX_BYTES, salvage
from tests.envelopes import MSG_ID, raw, with_body

NOTHING = {"reply_to": None, "msg_id": None, "correlation_id": None, "task_id": None, "source": None, "round": None}


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[]", b"\xff\xfe", b'"', b"\\" * 99, b"{" * 99, b'{"reply_to":5}', b'{"reply_to":""}']
)
def test_nothing_to_read(data: bytes) -> None:
    assert salvage(data) == NOTHING


def test_what_stands_before_the_fault_and_behind_it() -> None:
    data = raw(reply_to="mb").replace(b'"timestamp": 1', b'"timestamp": 1, "x": [nonsense \xff')
    assert salvage(raw(reply_to="mb")[:-1])["reply_to"] == "mb"
    assert salvage(data) == NOTHING | {"msg_id": MSG_ID}  # what follows stands inside the open bracket


@pytest.mark.parametrize(
    "body",
    [
        b'{"reply_to":"evil"}',
        b'[{"reply_to":"evil"}]',
        b'"\\"reply_to\\":\\"evil\\""',
        b'"a\\\\\\"reply_to\\":\\"evil"',
        b'{"payload":{"reply_to":"evil"},"reply_to":"evil"}',
        b'1},"x\\"reply_to":"evil","y":{"z":1',
    ],
)
def test_a_mailbox_inside_the_body_is_not_the_envelopes(body: bytes) -> None:
    assert salvage(with_body(body))["reply_to"] is None
    assert salvage(with_body(body)[:-1] + b',"reply_to":"good"')["reply_to"] == "good"


def test_only_a_few_candidates_are_looked_at() -> None:
    body = b"[" + b'{"reply_to":"evil"},' * 4 + b"0]"
    assert salvage(with_body(body)[:-1] + b',"reply_to":"good"}')["reply_to"] is None


def test_only_the_first_4_mib_are_looked_at() -> None:
    near, far = (b'{"a":"' + b"x" * size + b'","reply_to":"mb"}' for size in (MAX_BYTES - 100, MAX_BYTES))
    assert salvage(near)["reply_to"] == "mb"
    assert salvage(far)["reply_to"] is None


def test_a_deep_body_hides_nothing_behind_it() -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    assert salvage(with_body(deep)[:-1] + b',"reply_to":"mb"}')["reply_to"] == "mb"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("reply_to", "a{b}"),
        ("reply_to", "a:b"),
        ("reply_to", "x" * 129),
        ("msg_id", "1"),
        ("msg_id", MSG_ID.upper()),
        ("correlation_id", "x" * 257),
        ("task_id", "x" * 257),
    ],
)
def test_what_breaks_the_grammar_is_not_given(field: str, value: str) -> None:
    assert salvage(json.dumps({field: value}).encode()) == NOTHING


def test_the_source_is_the_agent_of_the_envelopes_own_source() -> None:
    assert salvage(b'{"source" : { "zone":"z", "agent_id" : "a" ')["source"] == "a"
    assert salvage(b'{"source":{"agent_id":"a b"}}')["source"] is None
    assert salvage(b'{"payload":{"source":{"agent_id":"a"}}}')["source"] is None
