"""The kit that users test with."""

import asyncio

import pytest

from reach import Agent, BackendUnavailable
from reach.backend.memory_backend import MemoryBackend, Store
from reach.clock import Cancel
from reach.errors import BackendFull
from reach.testing import Crash, FaultyBackend, ManualClock, TestReach, wait_until


async def test_a_manual_clock_moves_when_it_is_told_to() -> None:
    clock = ManualClock(wall_ms=1_000)
    called: list[str] = []
    clock.call_later(20, lambda: called.append("second"))
    clock.call_later(10, lambda: called.append("first"))
    take_back = clock.call_later(10, lambda: called.append("never"))
    take_back()
    take_back()
    planned = clock.next_at_ms
    clock.advance(9)
    assert called == []
    clock.advance(11)
    assert called == ["first", "second"]
    assert (clock.monotonic_ms(), clock.wall_ms(), planned, clock.next_at_ms) == (20, 1_020, 10, None)
    clock.advance(-500)
    assert (clock.monotonic_ms(), clock.wall_ms()) == (20, 520)


async def test_a_call_can_take_back_another_one_of_its_moment() -> None:
    clock = ManualClock()
    called: list[int] = []
    cancels: list[Cancel] = []

    def take_back() -> None:
        cancels[0]()

    clock.call_later(5, take_back)
    cancels.append(clock.call_later(5, lambda: called.append(1)))
    clock.advance(5)
    assert called == []


async def test_sleeping_by_a_manual_clock() -> None:
    clock = ManualClock()
    task = asyncio.create_task(clock.sleep(100))
    await clock.sleep(0)
    clock.advance(99)
    await asyncio.sleep(0)
    assert not task.done()
    clock.advance(1)
    await task


async def test_wait_until_waits_for_sync_and_async_conditions() -> None:
    tries = 0

    def twice() -> bool:
        nonlocal tries
        tries += 1
        return tries >= 2

    async def later() -> bool:
        return twice()

    await wait_until(twice)
    await wait_until(later)
    with pytest.raises(AssertionError, match="the moon"):
        await wait_until(lambda: False, 0.01, "the moon")
    with pytest.raises(AssertionError, match="lambda"):
        await wait_until(lambda: False, 0.01)


async def test_faults_around_a_step() -> None:
    seen: list[str] = []
    faulty = FaultyBackend(MemoryBackend(store=Store()), lambda name, _, __: seen.append(name))
    backend = faulty.backend
    await backend.open()
    faulty.fail("submit")
    faulty.lose_reply("submit")
    faulty.fail("submit", error=BackendFull("x"))
    faulty.crash("now_ms", before=False)
    with pytest.raises(BackendUnavailable):
        await backend.submit(0, "normal", b"1")
    assert await read_all(backend) == 0
    with pytest.raises(BackendFull):
        await backend.submit(0, "normal", b"2")
    with pytest.raises(BackendUnavailable):
        await backend.submit(0, "normal", b"3")
    assert await read_all(backend) == 1
    await backend.submit(0, "normal", b"4")
    with pytest.raises(Crash):
        await backend.now_ms()
    assert backend.partitions == 1
    assert "now_ms" in seen
    assert faulty.calls.count("submit") == 4
    await backend.close()


async def read_all(backend: object) -> int:
    assert isinstance(backend, FaultyBackend)
    return len(await backend.backend.read_work("w", [0], 10, 0))


async def test_a_paused_backend_lets_nobody_through() -> None:
    faulty = FaultyBackend(MemoryBackend(store=Store()))
    faulty.pause()
    task = asyncio.create_task(faulty.backend.open())
    for _ in range(5):
        await asyncio.sleep(0)
    assert not task.done()
    faulty.resume()
    await task
    await faulty.backend.close()


async def test_handlers_in_threads_are_waited_for() -> None:
    agent = Agent("one")

    @agent.capability("work")
    def work(body: int) -> int:
        return body + 1

    async with TestReach(agent) as bus:
        handle = await bus.send("work", 1)
        await bus.advance(0)
        assert (await handle.receipt(0)).output == 2


async def test_nothing_is_left_when_a_test_ends_with_work_under_way() -> None:
    agent = Agent("one")

    @agent.capability("work")
    async def work() -> None:
        await asyncio.Event().wait()

    async with TestReach(agent) as bus:
        await bus.send("work")
        await bus.settle()
        await bus.pause(agent)
    assert agent.instances == ()
