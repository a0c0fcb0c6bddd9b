"""A message of which much is recorded: what is asked of it grows with the records, not with their square, and what is shown is bounded."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import msgspec
import pytest

from reach.cli import picture
from reach.cli.decided import lines_of as decisions_as_lines
from reach.cli.picture import lines_of
from reach.events import reading
from reach.events.asking import Collected
from reach.events.decided import decisions_of
from reach.events.traced import Trace, trace_of
from tests.unit.events.test_traced import record

FEW = 150


def of_hands(n: int) -> list[dict[str, Any]]:
    found = []
    for number in range(n // 5):
        who = {"attempt": number, "agent": "a1", "hand": f"h{number}"}
        found += [
            record(number, "route.matched", "m1", strategy="score", chosen="a1", counts={"matched": 1, "fit": 1}),
            record(number, "route.sent", "m1", **who),
            record(number, "agent.received", "m1", **who),
            record(number, "agent.completed", "m1", code="handler.error", **who),
            record(number, "message.retried", "m1", code="handler.error", **who),
        ]
    return found


SHAPES: dict[str, Callable[[int], list[dict[str, Any]]]] = {
    "runs with hands": of_hands,
    "one hand": lambda n: [record(k, "agent.completed", "m1", agent="a", hand="h") for k in range(n)],
    "runs of older versions": lambda n: [
        record(k, point, "m1", attempt=1, agent="a", instance="a.1", final=point == "agent.completed")
        for k in range(n // 3)
        for point in ("route.sent", "agent.received", "agent.completed")
    ],
    "sent and never taken": lambda n: [record(k, "route.sent", "m1", attempt=1) for k in range(n)],
    "taken by many": lambda n: [record(k, "agent.received", "m1", attempt=1, instance=f"a.{k}") for k in range(n)],
    "answered by many": lambda n: [
        record(k % (n // 2) + (n if k >= n // 2 else 0), point, "m1", attempt=1, instance=f"a.{k % (n // 2)}")
        for k, point in enumerate(["agent.received"] * (n // 2) + ["agent.completed"] * (n // 2))
    ],
    "legs": lambda n: [record(k, "route.sent", "m1", leg=k, hand=f"h{k}", agent=f"a{k}") for k in range(n)],
    "deliveries": lambda n: [record(k, "message.delivered", "m1", code="ok") for k in range(n)],
    "messages by their hops": lambda n: [
        *[record(0, "agent.received", f"n{k}", agent=f"a{k}") for k in range(n)],
        *[record(k, "message.received", f"m{k}", envelope={"traces": {"previous_hops": ["a"]}}) for k in range(n)],
    ],
    "what each run has sent": lambda n: [
        one
        for k in range(n // 2)
        for one in (
            record(k, "agent.received", "m1", attempt=k, agent="a", hand=f"h{k}", span_id=f"s{k}"),
            record(k + 0.5, "message.received", f"n{k}", parent_span_id=f"s{k}"),
        )
    ],
}


def steps(work: Callable[[], object]) -> int:
    """How many instructions it takes: the same on any machine, however busy."""
    taken = 0

    def trace(frame: FrameType, _event: str, _argument: object) -> Any:
        nonlocal taken
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        taken += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return taken


def asked(records: list[dict[str, Any]]) -> None:
    asked = Collected("c1")
    batches = [msgspec.json.encode(records[start : start + 50]) for start in range(0, len(records), 50)]
    for _ in range(2):
        for batch in batches:
            asked.take_batch(0, batch)
    tree = asked.trace()
    assert tree is not None
    assert lines_of(tree)
    decisions = decisions_of(records[-1]["msg_id"], records)
    assert decisions is not None
    assert decisions_as_lines(decisions)


@pytest.mark.parametrize("shape", SHAPES)
def test_four_times_the_records_are_about_four_times_the_work(shape: str) -> None:
    few, many = (SHAPES[shape](number) for number in (FEW, 4 * FEW))
    assert steps(lambda: asked(many)) < 6 * steps(lambda: asked(few))


def test_a_batch_of_which_all_is_known_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[bytes] = []

    def records_in(partition: int, batch: bytes) -> list[dict[str, Any]]:
        read.append(batch)
        return reading.records_in(partition, batch)

    monkeypatch.setattr("reach.events.asking.records_in", records_in)
    own, mixed = (
        [record(1, "route.sent", name) | {"correlation_id": name} for name in names] for names in ("aa", "ab")
    )
    batches = [msgspec.json.encode(one) for one in (own, mixed)]
    asked = Collected("a")
    for _ in range(3):
        for batch in batches:
            asked.take_batch(0, batch)
    assert read == [batches[0], *[batches[1]] * 3]
    assert len(asked.found) == 1


def test_one_record_that_cannot_be_read_hides_no_other_of_its_batch() -> None:
    good = msgspec.json.encode(record(1, "route.sent", "m1"))
    asked = Collected("m1")
    asked.take_batch(0, b"[%s,7,{%s}]" % (good, b'"at_us":' + b"1" * 5_000))
    asked.take_batch(0, b"[%s" % good)
    assert asked.found.records() == [record(1, "route.sent", "m1")]


def test_of_much_the_first_and_the_last_are_drawn_and_all_of_it_is_data() -> None:
    tree = trace_of("c1", of_hands(5_000))
    head, _, *lines = lines_of(tree)
    assert "1000 runs" in head
    assert len(lines) == picture.FIRST + 1 + picture.LAST
    assert "... and 2900 more: --json has all" in lines[picture.FIRST]
    assert "run 0 a1" in "".join(lines[:5])
    assert "run 999" in "".join(lines[-5:])
    (message,) = msgspec.json.decode(msgspec.json.encode(tree), type=Trace).messages
    assert (len(message.runs), len(message.marks)) == (1000, 2000)
    few = trace_of("c1", of_hands(160))
    assert len(lines_of(few)) == 2 + 96, "so many are all drawn"


def test_of_many_messages_the_first_and_the_last_are_drawn() -> None:
    alone = [record(k, "message.received", f"m{k}") for k in range(500)]
    lines = lines_of(trace_of("c1", alone))
    assert len(lines) == 1 + picture.FIRST + 1 + picture.LAST
    assert "... and 400 more: --json has all" in lines[1 + picture.FIRST]


def test_a_picture_ends() -> None:
    records = [
        one
        for k in range(60)
        for one in (
            record(k, "agent.received", f"m{k}", attempt=1, hand="h", span_id=f"s{k}"),
            *[record(k + 0.1, "message.retried", f"m{k}") for _ in range(60)],
        )
    ]
    lines = lines_of(trace_of("c1", records))
    assert len(lines) == 1 + picture.MAX_LINES + 1
    assert lines[-1] == "the picture ends here, after 2000 lines: --json has the rest"


def test_of_many_decisions_the_first_and_the_last_are_told() -> None:
    found = decisions_of("m1", of_hands(5_000))
    assert found is not None
    lines = decisions_as_lines(found)
    assert "... and 2900 more: -o json has all" in lines
    assert len(lines) < 1_000
    names = [f"a{k}" for k in range(500)]
    seen = [{"agent": name, "score": 1.0} for name in names]
    told = record(1, "route.matched", "m1", counts={"matched": 500, "fit": 500}, candidates=seen)
    wide = decisions_of("m1", [told | {"chosen": ",".join(names)}])
    assert wide is not None
    assert "and 480 more" in decisions_as_lines(wide)
    assert len("\n".join(decisions_as_lines(wide))) < 3_000
    assert len(wide.decisions[0].candidates) == len(wide.decisions[0].chosen) == 500
