"""What the demo concludes from a run: every broken promise must be seen."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from examples.helpdesk.driver import findings, questions, records
from examples.helpdesk.driver.conversation import STEPS, Asked, Conversation
from examples.helpdesk.driver.strike import Strike, open_runs
from examples.helpdesk.messages import Answer
from examples.helpdesk.run_log import Line, read
from reach import Receipt, Status

STRUCK = Strike("docs-lookup-01", "router-1", 1_000, frozenset({"q001-lookup"}))


def receipt(msg_id: str, code: str = "ok", status: Status = Status.SUCCESS, **more: Any) -> Receipt[Any]:
    return Receipt(msg_id=msg_id, status=status, code=code, **more)


def talk(number: int = 1, **changes: Any) -> Conversation:
    name = f"q{number:03}"
    one = Conversation(
        Asked(name, "how?", ("str.join",)),
        f"helpdesk-{name}",
        [receipt(f"{name}-{step}") for step in STEPS],
        [100, 200, 300],
        Answer("str.join", "so"),
    )
    return dataclasses.replace(one, **changes)


def runs(*, msg_id: str = "q001-lookup", agent: str = "docs-lookup-02", at_ms: int = 150) -> list[Line]:
    return [Line("start", msg_id, agent, 1, at_ms), Line("end", msg_id, agent, 1, at_ms + 10)]


def record(point: str, msg_id: str = "q001-lookup", **more: Any) -> dict[str, Any]:
    return {"at_us": 0, "point": point, "msg_id": msg_id, **more}


def test_a_good_run_breaks_nothing() -> None:
    assert findings.broken([talk(1), talk(2)], runs(), [record("message.delivered")]) == []


def test_a_rejected_question_is_an_answer_too() -> None:
    rejected = talk(receipts=[receipt("a", "handler.rejected", Status.FAILED)], arrived_at_ms=[100], answer=None)
    assert findings.broken([rejected], [], []) == []


@pytest.mark.parametrize("code", ["timeout.total", "route.not_found", "ttl.expired", "agent.lost", "handler.error"])
def test_a_message_without_an_answer_is_lost(code: str) -> None:
    lost = talk(receipts=[receipt("a", code, Status.RETRYABLE)], arrived_at_ms=[100], answer=None)
    (sentence,) = findings.broken([lost], [], [])
    assert code in sentence


def test_a_missing_receipt_is_seen() -> None:
    short = talk(receipts=[receipt("a")], arrived_at_ms=[100])
    assert findings.broken([short], [], []) == ["q001: only 1 of 3 steps have a receipt"]
    assert findings.broken([talk(receipts=[], arrived_at_ms=[])], [], [])


def test_two_receipts_of_one_message_are_seen() -> None:
    double = talk(receipts=[receipt("a"), receipt("a"), receipt("b")])
    assert findings.broken([double], [], []) == ["message a has 2 terminal receipts"]


def test_a_run_after_the_answer_is_seen() -> None:
    (sentence,) = findings.broken([talk()], runs(at_ms=201), [])
    assert sentence == "message q001-lookup was run again by docs-lookup-02 after its receipt had come"


def test_a_second_delivery_is_seen() -> None:
    assert findings.broken([talk()], [], [record("message.delivered")] * 2) == [
        "message q001-lookup was delivered 2 times"
    ]


def test_what_was_taken_over_from_the_killed_agent() -> None:
    before = Line("start", "q001-lookup", "docs-lookup-01", 1, 900)
    seen = [
        record("route.sent", "q002-lookup", agent="docs-lookup-01"),
        record("message.moved", "q002-lookup"),
        {**record("route.sent", "q004-lookup", agent="docs-lookup-01"), "at_us": 9_000_000},
        record("route.sent", "q003-lookup", agent="docs-lookup-02"),
    ]
    lines = [
        before,
        *runs(at_ms=16_000),
        *runs(msg_id="q002-lookup", at_ms=4_000),
        *runs(msg_id="q003-lookup", at_ms=5_000),
        *runs(msg_id="q004-lookup", at_ms=12_100),
    ]
    moved = findings.rerouted([talk(number) for number in range(1, 5)], lines, seen, STRUCK)
    assert [(each.msg_id, each.after_ms, each.held) for each in moved] == [
        ("q001-lookup", 15_000, True),
        ("q004-lookup", 3_100, False),
        ("q002-lookup", 3_000, False),
    ]


def test_what_an_agent_had_in_its_hands() -> None:
    lines = [
        Line("start", "a", "x", 1, 1),
        Line("start", "b", "x", 1, 2),
        Line("end", "a", "x", 1, 3),
        Line("start", "c", "y", 1, 4),
    ]
    assert open_runs(lines, "x") == {"b"}


def test_receipts_are_counted_by_status_code_and_step() -> None:
    failed = talk(2, receipts=[receipt("a", "handler.rejected", Status.FAILED)], arrived_at_ms=[1])
    rows = {(status, code): dict(per_step) for status, code, per_step in findings.statuses([talk(), failed])}
    assert rows == {
        ("failed", "handler.rejected"): {"parse": 1},
        ("success", "ok"): {"parse": 1, "lookup": 1, "write": 1},
    }


def test_a_conversation_is_complete_with_seven_points_of_each_message() -> None:
    all_points = [record(point, each.msg_id) for each in talk().receipts for point in records.POINTS]
    assert len(all_points) == 21
    assert records.complete(talk(), all_points)
    assert not records.complete(talk(), all_points[1:])
    assert len(list(records.timeline(talk(), [*all_points, record("message.received", "another")]))) == 21


def test_questions_from_plain_text_and_from_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "own.txt"
    path.write_text('what is zip\n\n{"question": "and map?", "object": "map", "also": ["x"]}\n', "utf-8")
    assert questions.read(path) == [Asked("line-1", "what is zip"), Asked("line-3", "and map?", ("map", "x"))]


@pytest.mark.parametrize("line", ["{", '{"object": "map"}', '{"question": "x", "object": "map", "also": 3}'])
def test_a_line_that_cannot_be_read_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text(f"fine\n{line}\n", "utf-8")
    with pytest.raises(ValueError, match="line 2"):
        questions.read(path)


def test_the_halves_are_odd_and_even() -> None:
    assert [questions.tuned(Asked(f"q{number:03}", "")) for number in (1, 2, 199, 200)] == [True, False, True, False]


def test_a_run_log_is_read_up_to_its_last_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_bytes(b'["start","a","x",1,5]\n["end","a",')
    assert read(path) == [Line("start", "a", "x", 1, 5)]
