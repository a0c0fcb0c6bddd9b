"""The service behind the timers: when it looks, and that a nudge during a look is not lost."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from reach.backend.memory_backend import MemoryBackend, Store
from reach.backend.steps import DueReport
from reach.delivery.due import MAX_INTERVAL_MS, DueService
from reach.delivery.trail import Trail
from reach.errors import BackendUnavailable
from reach.tracing.hops import HopRecorder
from reach.tracing.time_base import TimeBase
from tests.manual_clock import ManualClock


class Looking(MemoryBackend):
    """Says when the next moment is, and what is to happen while it is asked."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(store=Store(clock))
        self.looked_at_ms: list[int] = []
        self.next_in_ms: list[int] = []
        self.meanwhile: Callable[[], None] = lambda: None
        self._own = clock

    async def due(self, partition: int, msg_id: str = "") -> DueReport:
        self.looked_at_ms.append(self._own.monotonic_ms())
        self.meanwhile()
        wait_ms = self.next_in_ms.pop(0) if self.next_in_ms else 0
        now_ms = self._own.wall_ms()
        return DueReport((), more=False, next_at_ms=now_ms + wait_ms if wait_ms else 0, now_ms=now_ms)


Run = Callable[[int], Awaitable[None]]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def backend(clock: ManualClock) -> Looking:
    return Looking(clock)


@pytest.fixture
def service(clock: ManualClock, backend: Looking) -> DueService:
    return DueService(backend, Trail(HopRecorder(backend.record, TimeBase())), [0], clock=clock)


async def run(service: DueService, clock: ManualClock, *steps_ms: int) -> None:
    """One run, while the clock moves on in these steps."""
    running = asyncio.get_running_loop().create_task(service.run_once())
    await turns()
    for ms in steps_ms:
        clock.advance(ms)
        await turns()
    assert running.done(), "it has not looked"
    await running


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_it_looks_at_once_then_when_the_next_moment_comes(
    service: DueService, clock: ManualClock, backend: Looking
) -> None:
    backend.next_in_ms = [300, 60_000, 0]
    await run(service, clock)
    await run(service, clock, 299, 1)
    await run(service, clock, MAX_INTERVAL_MS - 1, 1)
    assert backend.looked_at_ms == [0, 300, 300 + MAX_INTERVAL_MS]


async def test_a_nudge_brings_the_next_look_forward_but_never_back(
    service: DueService, clock: ManualClock, backend: Looking
) -> None:
    backend.next_in_ms = [500]
    await run(service, clock)
    service.nudge(900)
    service.nudge(100)
    await run(service, clock, 100, 1)
    assert backend.looked_at_ms == [0, 101]


async def test_a_nudge_while_it_waits_wakes_it_in_time(
    service: DueService, clock: ManualClock, backend: Looking
) -> None:
    await run(service, clock)
    running = asyncio.get_running_loop().create_task(service.run_once())
    await turns()
    clock.advance(200)
    service.nudge(50)
    await turns()
    clock.advance(51)
    await turns()
    assert running.done()
    assert backend.looked_at_ms == [0, 251]


async def test_a_nudge_while_it_looks_is_not_lost(service: DueService, clock: ManualClock, backend: Looking) -> None:
    backend.meanwhile = lambda: service.nudge(40)
    await run(service, clock)
    backend.meanwhile = lambda: None
    await run(service, clock, 41)
    assert backend.looked_at_ms == [0, 41]


async def test_after_a_failure_it_looks_again_at_once(
    service: DueService, clock: ManualClock, backend: Looking
) -> None:
    def fail() -> None:
        raise BackendUnavailable("away")

    backend.meanwhile = fail
    with pytest.raises(BackendUnavailable):
        await service.run_once()
    backend.meanwhile = lambda: None
    await run(service, clock)
    assert backend.looked_at_ms == [0, 0]
