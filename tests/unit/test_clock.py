"""The clock of this machine."""

import asyncio
import time

import pytest

from reach.clock import Clock, SystemClock


async def test_the_clock_of_this_machine() -> None:
    clock: Clock = SystemClock()
    before = clock.monotonic_ms()
    await clock.sleep(0)
    await clock.sleep(-5)
    assert clock.monotonic_ms() >= before
    assert abs(clock.wall_ms() - time.time() * 1000) < 60_000


async def test_sleep_can_be_cancelled() -> None:
    task = asyncio.create_task(SystemClock().sleep(3_600_000))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_call_later_comes_or_is_cancelled() -> None:
    clock = SystemClock()
    calls: list[str] = []
    rung = asyncio.Event()
    cancel = clock.call_later(0, lambda: calls.append("cancelled one"))
    cancel()
    clock.call_later(0, rung.set)
    await asyncio.wait_for(rung.wait(), 5)
    assert calls == []
