"""What a router records of runs that nobody records who was there."""

from typing import Any

import msgspec
import pytest

from reach.backend.steps import Answer, Record
from reach.delivery.derived import Derived, Untold
from reach.delivery.judge import Reference
from reach.envelope.ledger import Head, Leg, LegState
from reach.tracing.hops import HopRecorder
from reach.tracing.time_base import TimeBase

MSG = "a3f2c1e4-9b8d-4f3a-8c2e-1a2b3c4d5e6f"


@pytest.mark.parametrize(
    ("step_us", "began_us"),
    [(0, 4_800_000), (150_000, 4_950_000), (900_000, 5_000_000)],
    ids=["at once", "slowly", "longer than the run"],
)
async def test_a_run_does_not_begin_before_it_was_sent_where_the_step_was_slow(step_us: int, began_us: int) -> None:
    """The duration ends with the step. What follows from it comes after the mark, and so does what is recorded of it."""
    now_us, events = [5_000_000], list[dict[str, Any]]()

    async def write(_: int, batch: bytes) -> None:
        events.extend(msgspec.json.decode(batch))

    hops = HopRecorder(write, TimeBase(lambda: now_us[0], fallback_us=lambda: now_us[0]), flush_ms=0)
    head = Head("f", "s", "one", "normal", 1, 1, 1, 1, 1, "")
    before = Record(MSG, head, {0: Leg(state=LegState.QUEUED, agent="a", hand="7-0")})
    left = Leg(state=LegState.RETURNED, agent="a", hand="7-0", attempt=1, duration_ms=200)
    mark = hops.base.mark()
    now_us[0] += step_us
    answer = Answer("retryable", "handler.error", "{}")
    Derived(hops).settled(0, before, Reference(MSG, 0, "7-0"), answer, Record(MSG, head, {0: left}), mark)
    await hops.run_once()
    assert [(record["point"], record["at_us"]) for record in events] == [
        ("agent.received", began_us),
        ("agent.responding", 5_000_000),
        ("agent.completed", 5_000_000),
    ]


HAND = "7-0"
RECEIPT = b'{"status":"success","output":1}'
OF_A_RUN = ("agent.received", "agent.responding", "agent.completed")


def remembered(*mailboxes: str, **leg: Any) -> Record:
    """What the ledger has of a message whose leg has ended; these mailboxes have the receipt."""
    made: dict[str, Any] = {"state": LegState.DONE, "agent": "a", "hand": HAND, "finished_at_ms": 9}
    head = Head("f", "s", "one", "normal", 1, 1, 1, 1, 1, '"correlation_id":"c"', mailboxes=mailboxes)
    return Record(MSG, head, {0: Leg(**made | leg)}, receipts={0: RECEIPT})


async def written(said: Untold, record: Record | None, hand: str = HAND) -> tuple[list[dict[str, Any]], HopRecorder]:
    """The records of what a script has told, an hour later, and who wrote them."""
    events: list[dict[str, Any]] = []

    async def write(_: int, batch: bytes) -> None:
        events.extend(msgspec.json.decode(batch))

    hops = HopRecorder(write, TimeBase(lambda: 3_600_000_000, fallback_us=lambda: 3_600_000_000), flush_ms=0)
    Derived(hops).untold(0, Reference(MSG, 0, hand), said, record)
    await hops.run_once()
    return events, hops


def has_receipt(record: dict[str, Any]) -> bool:
    """Whether there is one, although nothing is kept of it here."""
    return "left_out" in record


def run_of(**other: Any) -> Untold:
    made: dict[str, Any] = {
        "at": 5_000_000,
        "began": 4_000_000,
        "attempt": 2,
        "agent": "a",
        "instance": "a.1",
        "code": "ok",
    }
    return Untold(**made | {"status": "success", "ended": True} | other)


async def test_a_run_that_a_script_tells_of_has_its_moments_and_its_end() -> None:
    events, _ = await written(run_of(), remembered("plain.box", "own.r"))
    points = [(one["point"], one["at_us"]) for one in events]
    assert points == [
        (OF_A_RUN[0], 4_000_000),
        (OF_A_RUN[1], 5_000_000),
        (OF_A_RUN[2], 5_000_000),
        ("message.delivered", 5_000_000),
    ]
    run, delivered = events[:3], events[3]
    assert {(one["hand"], one["attempt"], one["agent"], one["instance"]) for one in run} == {(HAND, 2, "a", "a.1")}
    assert [one.get("code", "") for one in events] == ["", "ok", "ok", "ok"]
    assert [one.get("duration_us", 0) for one in events] == [0, 1_000_000, 1_000_000, 0]
    assert [one.get("final", False) for one in events] == [False, False, True, False]
    assert [has_receipt(one) for one in events] == [False, False, True, False]
    assert "hand" not in delivered
    assert delivered["parent_span_id"] == run[2]["span_id"]
    assert len({one["span_id"] for one in events}) == 4


async def test_a_run_that_has_not_ended_its_leg_ends_nothing() -> None:
    events, _ = await written(run_of(ended=False, code="handler.error", status="retryable"), remembered("plain.box"))
    assert [one["point"] for one in events] == list(OF_A_RUN)
    assert [one.get("final", False) for one in events] == [False] * 3
    assert not any(map(has_receipt, events))


async def test_of_a_leg_that_another_hand_has_by_now_nothing_is_taken() -> None:
    """Its receipt is that of another run, and so are those who have it."""
    events, _ = await written(run_of(), remembered("plain.box", hand="8-0"))
    assert [one["point"] for one in events] == list(OF_A_RUN)
    assert not any(map(has_receipt, events))
    assert events[2]["final"]


async def test_of_a_leg_that_is_open_again_nothing_is_taken() -> None:
    events, _ = await written(run_of(), remembered("plain.box", state=LegState.QUEUED, finished_at_ms=0))
    assert [one["point"] for one in events] == list(OF_A_RUN)


async def test_a_run_of_a_message_that_is_forgotten_is_told_all_the_same() -> None:
    events, _ = await written(run_of(round=3), None)
    assert [(one["point"], one["round"]) for one in events] == [(point, 3) for point in OF_A_RUN]


async def test_a_run_that_began_after_its_end_took_no_time() -> None:
    events, _ = await written(run_of(began=6_000_000), None)
    assert [(one["at_us"], one.get("duration_us", 0)) for one in events] == [(5_000_000, 0)] * 3


@pytest.mark.parametrize(
    ("code", "status", "point"),
    [
        ("cancelled", "failed", "message.cancelled"),
        ("timeout.total", "retryable", "message.expired"),
        ("ttl.expired", "retryable", "message.expired"),
        ("stage.failed", "failed", "route.failed"),
        ("backend.unavailable", "retryable", "route.failed"),
        ("ok", "success", "agent.completed"),
        ("timeout.total", "success", "agent.completed"),
    ],
)
async def test_an_end_that_a_script_tells_of_is_recorded_as_what_it_is(code: str, status: Any, point: str) -> None:
    said = Untold(at=5_000_000, round=2, attempt=1, agent="a", code=code, status=status, ended=True)
    (end, delivered), _ = await written(said, remembered("plain.box"))
    assert (end["point"], end["at_us"], end["final"], end["code"]) == (point, 5_000_000, True, code)
    assert (end["round"], end["attempt"], end["agent"], has_receipt(end)) == (2, 1, "a", True)
    assert end["correlation_id"] == "c"
    assert (delivered["point"], delivered["at_us"]) == ("message.delivered", 5_000_000)
    assert delivered["parent_span_id"] == end["span_id"]


async def test_an_end_of_a_leg_that_another_hand_has_by_now_has_no_receipt() -> None:
    said = Untold(at=5_000_000, code="cancelled", status="failed", ended=True)
    (end, *_), _ = await written(said, remembered(), hand="0-2")
    assert not has_receipt(end)


async def test_a_leg_that_expires_and_nobody_had_is_counted_as_not_routed() -> None:
    said = Untold(at=5_000_000, code="timeout.total", status="retryable", ended=True)
    for agent, count in ((None, 1), ("a", 0)):
        _, hops = await written(msgspec.structs.replace(said, agent=agent), None)
        assert hops.tally.counts["reach_route_fail_total", "timeout.total"] == count


@pytest.mark.parametrize(("instance", "told"), [("a.1", "a.1"), ("", "a.2")])
async def test_who_read_without_scripts_is_known_by_what_took_his_answer(instance: str, told: str) -> None:
    events: list[dict[str, Any]] = []

    async def write(_: int, batch: bytes) -> None:
        events.extend(msgspec.json.decode(batch))

    hops = HopRecorder(write, TimeBase(lambda: 5_000_000, fallback_us=lambda: 5_000_000), flush_ms=0)
    before = remembered("plain.box", state=LegState.QUEUED, finished_at_ms=0, attempt=1, instance=instance)
    after = remembered("plain.box", instance="a.2", duration_ms=200)
    answer = Answer("success", "ok", "{}")
    Derived(hops).settled(0, before, Reference(MSG, 0, HAND), answer, after, hops.base.mark())
    await hops.run_once()
    assert [one["point"] for one in events] == [*OF_A_RUN, "message.delivered"]
    assert {(one["attempt"], one["instance"]) for one in events} == {(2, told)}
    assert [one.get("final", False) for one in events] == [False, False, True, False]
    assert [has_receipt(one) for one in events] == [False, False, True, False]


async def test_the_receipt_of_a_run_that_comes_back_stands_at_its_end() -> None:
    """Nobody has it yet but whoever has applied it."""
    events: list[dict[str, Any]] = []

    async def write(_: int, batch: bytes) -> None:
        events.extend(msgspec.json.decode(batch))

    hops = HopRecorder(write, TimeBase(lambda: 5_000_000, fallback_us=lambda: 5_000_000), flush_ms=0)
    before = remembered("plain.box", state=LegState.QUEUED, finished_at_ms=0)
    after = remembered("plain.box", state=LegState.RETURNED, finished_at_ms=0, attempt=1)
    answer = Answer("retryable", "handler.error", "{}")
    Derived(hops).settled(0, before, Reference(MSG, 0, HAND), answer, after, hops.base.mark())
    await hops.run_once()
    assert [(one["point"], one.get("final", False)) for one in events] == [(point, False) for point in OF_A_RUN]
    assert [has_receipt(one) for one in events] == [False, False, True]
