"""Recordings out of records, and how two answers differ."""

from typing import Any

import msgspec
import pytest

from reach.envelope.privacy import Privacy, read_privacy
from reach.events.recordings import MAX_DIFFERENCES, NOT_RECORDED, Difference, differences, recordings_in, with_ledger
from tests.envelopes import fields as minimal
from tests.unit.events.test_traced import record


@pytest.mark.parametrize(
    ("was", "now", "told"),
    [
        ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 2}]}, []),
        ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]}, [Difference("a[1].b", 2, 3)]),
        ({"a": 1}, {"b": None}, [Difference("a", was=1, only="was"), Difference("b", only="now")]),
        ([1, 2], [1], [Difference("[1]", was=2, only="was")]),
        ([], ["x"], [Difference("[0]", now="x", only="now")]),
        (1, True, [Difference("", 1, True)]),
        (1, 1.0, []),
        ("x", {"x": 1}, [Difference("", "x", {"x": 1})]),
    ],
)
def test_where_two_values_differ(was: Any, now: Any, told: list[Difference]) -> None:
    assert list(differences(was, now)) == told


def test_the_places_that_are_told_are_bounded() -> None:
    assert len(differences(list(range(500)), [])) == MAX_DIFFERENCES
    deep: Any = 1
    for _ in range(500):
        deep = [deep]
    assert len(differences(deep, [deep])) == 1


def test_a_recording_is_what_was_sent_with_what_was_answered_and_only_roots_are_sent_again() -> None:
    sent = {**minimal(msg_id="m1"), "payload": {"body": {"order": 1}}}
    receipt = {"status": "success", "code": "ok", "output": [1], "target_agent": "bank"}
    records = [
        record(5, "message.received", "m3", left_out={"why": "hash", "sha256": "00"}),
        record(0, "message.received", "m1", envelope=sent),
        record(1, "message.received", "m2", envelope={**minimal(msg_id="m2"), "in_reply_to": "m1"}),
        record(2, "agent.completed", "m1", agent="bank", code="ok", receipt=receipt),
        record(6, "message.rejected", "m4", code="auth.denied"),
        record(7, "message.received", "m5", envelope={"msg_id": "m5"}),
    ]
    roots = recordings_in("c1", records, roots=True)
    assert [one.msg_id for one in roots] == ["m1", "m3", "m4", "m5"]
    first = roots[0]
    assert first.envelope is not None
    assert msgspec.json.decode(first.envelope.payload.body) == {"order": 1}
    assert first.answers == {"bank": {"status": "success", "code": "ok", "output": [1]}}
    assert "only hashed" in roots[1].why_not
    assert roots[2].why_not == NOT_RECORDED
    assert roots[3].why_not.startswith("its envelope cannot be read")
    assert [one.msg_id for one in recordings_in("c1", records, roots=False)] == ["m1", "m2", "m3", "m4", "m5"]


def test_what_the_ledger_knows_fills_what_the_records_do_not_say() -> None:
    (bare,) = recordings_in("m1", [record(0, "message.received", "m1")], roots=True)
    keep = Privacy("keep")
    full = with_ledger(bare, msgspec.json.encode(minimal(msg_id="m1")), {0: b'{"status":"failed"}', 1: b"junk"}, keep)
    assert full.envelope is not None
    assert full.answers == {"": {"status": "failed", "code": "handler.rejected", "output": None}}
    assert with_ledger(full, b"junk", {}, keep) == full
    assert with_ledger(bare, b"junk", {}, keep).why_not.startswith("its envelope cannot be read")


@pytest.mark.parametrize(
    ("privacy", "kept", "answers"),
    [
        ("keep,pay.*=drop", False, []),
        ("drop,pay.*=keep", True, ["b"]),  # what the other receipt is of is dropped
        ("hash", False, []),
        ("keep,pay.result=hash", True, ["a"]),
        ("keep", True, ["a", "b"]),
    ],
)
def test_the_ledger_fills_in_nothing_that_records_may_not_keep(privacy: str, kept: bool, answers: list[str]) -> None:
    (bare,) = recordings_in("m1", [record(0, "message.received", "m1")], roots=True)
    sent = msgspec.json.encode({**minimal(msg_id="m1"), "payload": {"schema": "pay.refund.v1", "body": 1}})
    of = {"a": "other.v1", "b": "pay.result.v1"}
    receipts = {
        leg: msgspec.json.encode({"status": "success", "output": 1, "target_agent": agent, "schema": schema})
        for leg, (agent, schema) in enumerate(of.items())
    }
    full = with_ledger(bare, sent, receipts, read_privacy(privacy))
    assert (full.envelope is not None, sorted(full.answers)) == (kept, answers)
    assert kept or "(the setting privacy)" in full.why_not
    if "=" in privacy:  # of a message whose envelope is gone nobody can say of which schema it is: the strictest holds
        assert with_ledger(bare, b"", receipts, read_privacy(privacy)).answers == {}
