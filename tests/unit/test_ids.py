"""The grammar of identifiers, and new ones."""

import pytest

from reach import ids
from tests.envelopes import MSG_ID


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("dev", True),
        ("a" * 32, True),
        ("0-x", True),
        ("", False),
        ("a" * 33, False),
        ("-a", False),
        ("a.b", False),
        ("Dev", False),
        ("dev\n", False),
    ],
)
def test_env(text: str, good: bool) -> None:
    assert ids.is_env(text) is good


@pytest.mark.parametrize(
    ("text", "good"),
    [("a", True), ("A.b_c-9", True), ("a" * 128, True), ("", False), ("a" * 129, False), (".a", False), ("a:b", False)]
    + [(f"a{bad}", False) for bad in "{}:* /\n\x00é"],
)
def test_name(text: str, good: bool) -> None:
    assert ids.is_name(text) is good


@pytest.mark.parametrize(
    ("text", "token", "schema"),
    [
        ("refund", True, False),
        ("a.b-c_d.9", True, False),
        ("refund.request.v1", True, True),
        ("a.v", True, False),
        ("a.v1.b", True, False),
        ("v1", True, False),
        ("a" * 125 + ".v1", True, True),
        ("a" * 126 + ".v1", False, False),
        ("", False, False),
        (".a", False, False),
        ("a..b", False, False),
        ("A", False, False),
        ("a.v1\n", False, False),
    ],
)
def test_token_and_schema(text: str, token: bool, schema: bool) -> None:
    assert (ids.is_token(text), ids.is_schema(text)) == (token, schema)


def test_uuid() -> None:
    assert ids.is_uuid(MSG_ID)
    for bad in ("", MSG_ID.upper(), MSG_ID + "\n", MSG_ID.replace("-", ""), f"urn:uuid:{MSG_ID}", MSG_ID[:-1] + "g"):
        assert not ids.is_uuid(bad)


def test_texts() -> None:
    assert ids.is_key("x" * 256)
    assert ids.is_key("\n")
    assert not ids.is_key("")
    assert not ids.is_key("x" * 257)
    assert ids.is_printable("conv 8877 ü")
    for bad in ("", "x" * 257, "a\tb", "\x7f"):
        assert not ids.is_printable(bad)


def test_new_msg_ids_are_canonical_and_sort_by_time() -> None:
    made = [ids.new_msg_id() for _ in range(100)]
    assert all(map(ids.is_uuid, made))
    assert len(set(made)) == 100
    assert made == sorted(made)
    assert made[0][14] == "7"


def test_new_mailbox_id() -> None:
    assert ids.new_mailbox_id(random=bytes) == "mail." + "00" * 12 + ".r"
    assert ids.new_mailbox_id("refund-01", random=lambda n: b"\xff" * n) == "refund-01." + "ff" * 12 + ".r"
    longest = ids.new_mailbox_id("a" * 128)
    assert ids.is_name(longest)
    assert ids.records_deliveries(longest)
    assert not ids.records_deliveries("box.1")
    assert ids.new_mailbox_id() != ids.new_mailbox_id()


def test_new_instance_id() -> None:
    assert ids.new_instance_id("node-1", 255, random=bytes) == "node-1-ff-000000000000"
    assert ids.is_name(ids.new_instance_id("n" * 128, 253_402_300_799_999))
    assert ids.new_instance_id("n", 1) != ids.new_instance_id("n", 1)


@pytest.mark.parametrize(
    ("template", "name"),
    [
        ("refund-{instance}", "refund"),
        ("{instance}-refund", "refund"),
        ("{instance}.refund", "refund"),
        ("a.{instance}.b", "a.b"),
        ("plain", "plain"),
        ("{instance}", ""),
    ],
)
def test_stable_name(template: str, name: str) -> None:
    assert ids.stable_name(template) == name


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), (b"12", 12), ("9" * 15, 10**15 - 1), ("9" * 16, None), ("9" * 5_000, None), ("", None), (b"-1", None)]
    + [(bad, None) for bad in ("1.5", " 1", "1\n", "\u0663", b"\xff")],
)
def test_a_count_that_stands_where_anybody_may_write(text: str | bytes, number: int | None) -> None:
    assert ids.count_of(text) == number


@pytest.mark.parametrize(
    ("text", "pair"),
    [("5-1", (5, 1)), (b"5-1", (5, 1)), ("5", (5, 0)), ("0-0", (0, 0)), (f"{2**64 - 1}-{2**64 - 1}", (2**64 - 1,) * 2)],
)
def test_the_id_of_a_stream_entry(text: str | bytes, pair: tuple[int, int]) -> None:
    assert ids.stream_id(text) == pair


@pytest.mark.parametrize(
    "text", ["", "-", "5-", "-1", "a-1", "5-b", "5-1-1", "\u0663-1", "9" * 21, b"\xff-1", "*", "$"]
)
def test_no_id_of_a_stream_entry(text: str | bytes) -> None:
    with pytest.raises(ValueError, match="stream id"):
        ids.stream_id(text)
