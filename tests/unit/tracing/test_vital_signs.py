"""How a process says that it is: each number goes up where something is wrong, and down again."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import pytest

from reach.errors import BackendUnavailable
from reach.service import Vitals
from reach.testing import wait_until
from reach.tracing.hops import HopRecorder
from reach.tracing.readings import Reading
from reach.tracing.time_base import TimeBase
from reach.tracing.vital_signs import LOOK_MS, REMEMBERED_MS, UP_MS, LoopWatch, ServerWatch, of_recorder, of_services
from tests.manual_clock import ManualClock


def number(source: Callable[[], Iterable[Reading]], metric: str) -> float:
    (found,) = [reading.value for reading in source() if reading.metric == metric]
    return found


async def late_by(watch: LoopWatch, clock: ManualClock, ms: int) -> None:
    """One look, which is called back so late."""
    looking = asyncio.create_task(watch.run_once())
    await wait_until(lambda: clock.waiting == 1)
    clock.advance(LOOK_MS + ms)
    await looking


async def test_the_worst_lag_of_the_loop_is_told_for_ten_seconds() -> None:
    clock = ManualClock()
    watch = LoopWatch(clock)
    assert number(watch, "reach_loop_lag_seconds") == 0
    for ms in (0, 1_500, 20):
        await late_by(watch, clock, ms)
    assert number(watch, "reach_loop_lag_seconds") == 1.5
    clock.advance(REMEMBERED_MS - LOOK_MS - 10)
    await late_by(watch, clock, 5)
    assert number(watch, "reach_loop_lag_seconds") == 0.02
    clock.advance(REMEMBERED_MS)
    await late_by(watch, clock, 0)
    assert number(watch, "reach_loop_lag_seconds") == 0


async def away() -> int:
    raise BackendUnavailable("nobody there")


async def there() -> int:
    return 1


async def test_redis_is_up_while_it_answers_and_down_with_the_first_question_that_it_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ask: list[Callable[[], Awaitable[Any]]] = [away]

    def asked() -> Awaitable[Any]:
        return ask[0]()

    clock = ManualClock()
    watch = ServerWatch(asked, clock)
    seen = [number(watch, "reach_redis_up")]
    for answer in (away, there, away, there):
        ask[0] = answer
        await watch.run_once()
        seen.append(number(watch, "reach_redis_up"))
    assert seen == [0, 0, 1, 0, 1]
    clock.advance(UP_MS)
    assert number(watch, "reach_redis_up") == 1
    clock.advance(1)
    assert number(watch, "reach_redis_up") == 0, "nobody has asked for too long"
    monkeypatch.setattr("reach.tracing.vital_signs.ANSWER_S", 0)
    ask[0] = asyncio.Event().wait
    await watch.run_once()
    assert number(watch, "reach_redis_up") == 0, "it is asked, and says nothing"


async def test_records_that_wait_and_those_that_found_no_room_are_counted() -> None:
    is_away = True

    async def sink(partition: int, batch: bytes) -> None:
        if is_away:
            raise BackendUnavailable("nobody there")

    hops = HopRecorder(sink, TimeBase(), max_records=3)
    source = of_recorder(hops)
    for n in range(5):
        hops.add(0, "route.sent", f"m{n}")
    with pytest.raises(BackendUnavailable):
        await hops.flush()
    assert (number(source, "reach_events_waiting"), number(source, "reach_events_dropped_total")) == (3, 2)
    is_away = False
    await hops.close()
    assert (number(source, "reach_events_waiting"), number(source, "reach_events_dropped_total")) == (0, 2)


def test_a_service_that_fails_is_told_by_its_name() -> None:
    vitals = {"router": Vitals(0), "archiver": Vitals(0)}
    vitals["archiver"].failures = 3
    found = {reading.labels: reading.value for reading in of_services(vitals)()}
    assert found == {("router",): 0, ("archiver",): 3}
