"""The supervisor: services run side by side, survive what they raise, and stop without being cut off."""

import asyncio
import logging
import random
from collections.abc import Callable

import pytest

from reach.clock import Cancel
from reach.errors import BackendDenied, BackendError, BackendUnavailable, ScriptFailed
from reach.service import MAX_PAUSE_MS, Report, Supervisor, Tasks, Wait, pause_ms, until_open
from tests.manual_clock import ManualClock


class StepClock:
    """Time moves only by sleeping; every sleep gives way once."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.slept: list[int] = []

    def monotonic_ms(self) -> int:
        return self.now_ms

    def wall_ms(self) -> int:
        return self.now_ms

    async def sleep(self, ms: int) -> None:
        self.slept.append(ms)
        self.now_ms += ms
        await asyncio.sleep(0)

    def call_later(self, ms: int, call: Callable[[], None]) -> Cancel:
        return asyncio.get_running_loop().call_soon(call).cancel


async def turns() -> None:
    """Let the loop turn a few times."""
    for _ in range(10):
        await asyncio.sleep(0)


class Counting:
    name = "counting"
    interval_ms = 7

    def __init__(self, errors: list[Exception | None], wanted: int) -> None:
        self.errors = errors
        self.runs = 0
        self.enough = asyncio.Event()
        self.wanted = wanted

    async def run_once(self) -> Report:
        self.runs += 1
        if self.runs >= self.wanted:
            self.enough.set()
        error = self.errors[self.runs - 1] if self.runs <= len(self.errors) else None
        if error is not None:
            raise error
        return {"ran": 1}


async def test_a_service_that_raises_is_run_again_and_the_pause_grows() -> None:
    clock = StepClock()
    service = Counting([ValueError("bug"), BackendUnavailable("away"), RecursionError(), None], wanted=5)
    supervisor = Supervisor([service], clock=clock, rng=random.Random(1))
    async with supervisor:
        await service.enough.wait()
    assert 50 <= clock.slept[0] <= 100
    assert 100 <= clock.slept[1] <= 200
    assert 200 <= clock.slept[2] <= 400
    assert clock.slept[3] == 7
    vitals = supervisor.vitals["counting"]
    assert (vitals.failures, vitals.last_error) == (0, "")


async def test_failures_in_a_row_are_counted_and_logged_once_in_ten_seconds(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    clock = StepClock()
    service = Counting([BackendUnavailable("away")] * 8, wanted=8)
    supervisor = Supervisor([service], clock=clock, rng=random.Random(1))
    async with supervisor:
        await service.enough.wait()
    assert clock.now_ms < 10_000
    assert len([record for record in caplog.records if record.message.startswith("service failed ")]) == 1
    assert supervisor.vitals["counting"].last_error == "backend.unavailable"


async def test_who_flaps_is_told_of_once_in_ten_seconds(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    clock = StepClock()
    service = Counting([BackendUnavailable("away"), None] * 6, wanted=12)
    async with Supervisor([service], clock=clock, rng=random.Random(1)):
        await service.enough.wait()
    assert clock.now_ms < 10_000
    assert [record.getMessage().partition(" service=")[0] for record in caplog.records] == [
        "service failed",
        "service recovered",
    ]


@pytest.mark.parametrize(
    ("error", "traceback"),
    [
        (BackendUnavailable("away"), False),
        (BackendError("Redis answered WRONGTYPE", details={"reply_code": "WRONGTYPE"}), False),
        (ScriptFailed("Redis answered: a bug", details={"reply_code": "ERR"}), True),
        (BackendError("unexpected"), True),
        (ValueError("a bug"), True),
    ],
)
async def test_only_a_bug_has_a_traceback(caplog: pytest.LogCaptureFixture, error: Exception, traceback: bool) -> None:
    service = Counting([error], wanted=1)
    async with Supervisor([service], clock=StepClock(), rng=random.Random(1)):
        await service.enough.wait()
    assert [record.exc_info is not None for record in caplog.records] == [traceback]


class Holding:
    name = "holding"
    interval_ms = 0

    def __init__(self) -> None:
        self.entered, self.release = asyncio.Event(), asyncio.Event()
        self.finished = 0

    async def run_once(self) -> Report:
        self.entered.set()
        await self.release.wait()
        self.finished += 1
        return {}


async def test_stop_lets_the_run_under_way_end_and_starts_none() -> None:
    service = Holding()
    supervisor = Supervisor([service])
    supervisor.start()
    await service.entered.wait()
    stopping = asyncio.get_running_loop().create_task(supervisor.stop(10_000))
    await asyncio.sleep(0)
    service.release.set()
    assert await stopping
    assert service.finished == 1


async def test_stop_cuts_off_what_does_not_end_in_time() -> None:
    service = Holding()
    supervisor = Supervisor([service])
    supervisor.start()
    await service.entered.wait()
    assert not await supervisor.stop(1)
    assert service.finished == 0


async def test_stop_does_not_wait_for_a_pause() -> None:
    service = Counting([], wanted=1)
    service.interval_ms = 3_600_000
    supervisor = Supervisor([service])
    supervisor.start()
    await service.enough.wait()
    await asyncio.sleep(0)
    assert await supervisor.stop(60_000)


def test_the_pause_is_bounded_for_any_number_of_failures() -> None:
    rng = random.Random(3)
    for failures in (0, 1, 10, 1_024, 10**6):
        assert 0 < pause_ms(failures, rng) <= MAX_PAUSE_MS


async def test_tasks_are_owned_until_they_end_and_none_outlives_its_owner(caplog: pytest.LogCaptureFixture) -> None:
    tasks = Tasks()
    ended = asyncio.Event()

    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def failing() -> None:
        raise ValueError("bug")

    tasks.start(endless(), "endless")
    failed = tasks.start(failing(), "failing")
    assert failed is not None
    with pytest.raises(ValueError, match="bug"):
        await failed
    assert len(tasks) == 1
    assert [record.message.split(" task=")[0] for record in caplog.records] == ["task failed"]
    await tasks.close()
    assert ended.is_set()
    assert len(tasks) == 0
    assert tasks.start(failing(), "too late") is None


# ---------------------------------------------------------------- waiting for a server


class Server:
    """Comes after so many attempts."""

    def __init__(self, *answers: Exception | None) -> None:
        self.answers = list(answers)
        self.attempts = 0

    async def open(self) -> None:
        self.attempts += 1
        answer = self.answers.pop(0)
        if answer is not None:
            raise answer


async def test_a_server_that_comes_later_is_waited_for_and_said_so_once(caplog: pytest.LogCaptureFixture) -> None:
    clock, server = ManualClock(), Server(*[BackendUnavailable("away")] * 5, None)
    waiting = asyncio.ensure_future(until_open(server.open, clock=clock, rng=random.Random(1), told={"worker": "w"}))
    for _ in range(5):
        await turns()
        clock.advance(1_000)
    assert await waiting is True
    assert server.attempts == 6
    (line,) = [record for record in caplog.records if record.message.startswith("waiting for redis ")]
    assert line.__dict__["worker"] == "w"


async def test_a_server_that_refuses_is_raised_or_waited_for() -> None:
    clock, rng = ManualClock(), random.Random(1)
    with pytest.raises(BackendDenied):
        await until_open(Server(BackendDenied("no")).open, clock=clock, rng=rng, told={})
    server = Server(BackendDenied("no"), None)
    waiting = asyncio.ensure_future(until_open(server.open, clock=clock, rng=rng, told={}, gives_up=False))
    await turns()
    clock.advance(1_000)
    assert await waiting is True


async def test_who_is_told_to_end_waits_no_longer() -> None:
    clock, rng, stop = ManualClock(), random.Random(1), asyncio.Event()

    async def hang() -> None:
        await asyncio.Event().wait()

    for attempt in (hang, Server(BackendUnavailable("away")).open):
        stop.clear()
        waiting = asyncio.ensure_future(until_open(attempt, clock=clock, rng=rng, told={}, stop=stop))
        await turns()
        assert not waiting.done()
        stop.set()
        assert await waiting is False
    server = Server()
    assert await until_open(server.open, clock=clock, rng=rng, told={}, stop=stop) is False
    assert (server.attempts, clock.waiting) == (0, 0)
    stop.clear()
    assert await until_open(Server(None).open, clock=clock, rng=rng, told={}, stop=stop) is True


async def test_a_wait_that_is_cancelled_leaves_nothing_behind() -> None:
    clock = ManualClock()
    stop = asyncio.Event()
    waiting = asyncio.ensure_future(
        until_open(Server(BackendUnavailable("away")).open, clock=clock, rng=random.Random(1), told={}, stop=stop)
    )
    await turns()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert clock.waiting == 0


# ---------------------------------------------------------------- waits that can be cut short
class Blocking:
    name = "blocking"
    interval_ms = 0

    def __init__(self) -> None:
        self.wait = Wait()
        self.brought: list[object] = []

    def interrupt(self) -> None:
        self.wait.end()

    async def run_once(self) -> Report:
        self.brought.append(await self.wait.on(asyncio.Event().wait()))
        return {}


async def test_a_service_that_only_waits_is_interrupted_and_not_cut_off() -> None:
    service = Blocking()
    supervisor = Supervisor([service])
    supervisor.start()
    await turns()
    assert await supervisor.stop(drain_ms=60_000) is True
    assert service.brought == [None]
    await service.run_once()  # a wait that begins after the end is none
    assert service.brought == [None, None]


async def test_a_wait_that_is_running_out_can_be_cut_again() -> None:
    wait = Wait()
    waiting = asyncio.create_task(wait.on(asyncio.Event().wait()))
    while not waiting.done():
        wait.cut()
        await asyncio.sleep(0)
    assert await waiting is None


async def test_a_wait_brings_what_it_waits_for_and_raises_what_that_raises() -> None:
    wait = Wait()

    async def soon() -> str:
        return "value"

    assert await wait.on(soon()) == "value"

    async def late() -> None:
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        await wait.on(late())
    waiting = asyncio.create_task(wait.on(asyncio.Event().wait()))
    await turns()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
