"""Readers that wait: woken by a write from any task or thread, by the clock, by close; nothing is left behind."""

import asyncio
import threading

import pytest

from reach.backend import Backend
from reach.backend.memory_backend import MemoryBackend, Store
from reach.errors import BackendUnavailable
from tests.manual_clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(clock: ManualClock) -> Store:
    return Store(clock)


async def until_waiting(clock: ManualClock, count: int = 1) -> None:
    async with asyncio.timeout(5):
        while clock.waiting < count:
            await asyncio.sleep(0)


def test_it_is_a_backend() -> None:
    backend: Backend = MemoryBackend(store=Store(ManualClock()))
    assert backend.durability == "memory"


async def test_a_write_wakes_the_reader(store: Store, clock: ManualClock) -> None:
    reader, writer = MemoryBackend(store=store), MemoryBackend(store=store)
    async with asyncio.TaskGroup() as tasks:
        read = tasks.create_task(reader.read_work("w", [0], 10, 60_000))
        await until_waiting(clock)
        await writer.submit(0, "low", b"x")
    assert [entry.fields for entry in read.result()] == [{b"e": b"x"}]
    assert (len(store.room), clock.waiting) == (0, 0)


async def test_the_clock_ends_the_wait(store: Store, clock: ManualClock) -> None:
    backend = MemoryBackend(store=store)
    async with asyncio.TaskGroup() as tasks:
        ring = tasks.create_task(backend.ring("a", {0: {"high": "0-0"}}, 500))
        await until_waiting(clock)
        clock.advance(499)
        for _ in range(5):
            await asyncio.sleep(0)
        assert not ring.done()
        clock.advance(1)
    assert ring.result() is False
    assert len(store.room) == 0


async def test_no_block_means_no_wait(store: Store) -> None:
    assert await MemoryBackend(store=store).read_mail("box", {0: "0"}, 0) == []


async def test_close_ends_the_wait_of_this_backend_only(store: Store, clock: ManualClock) -> None:
    closing, staying = MemoryBackend(store=store), MemoryBackend(store=store)
    async with asyncio.TaskGroup() as tasks:
        ends = tasks.create_task(_outcome(closing))
        stays = tasks.create_task(_outcome(staying))
        await until_waiting(clock, 2)
        await closing.close()
        await closing.close()
        assert await ends == "unavailable"
        assert not stays.done()
        clock.advance(1_000)
    assert stays.result() == "nothing"
    with pytest.raises(BackendUnavailable):
        await closing.now_ms()


async def _outcome(backend: MemoryBackend) -> str:
    try:
        return "something" if await backend.changes("0-0", 1_000) else "nothing"
    except BackendUnavailable:
        return "unavailable"


async def test_a_cancelled_reader_leaves_nothing_behind(store: Store, clock: ManualClock) -> None:
    backend = MemoryBackend(store=store)
    async with asyncio.TaskGroup() as tasks:
        read = tasks.create_task(backend.read_work("w", [0], 10, 60_000))
        await until_waiting(clock)
        read.cancel()
    assert (len(store.room), clock.waiting) == (0, 0)
    await backend.submit(0, "high", b"x")
    assert len(await backend.read_work("w2", [0], 10, 0)) == 1


async def test_flushall_wakes_and_heals(store: Store, clock: ManualClock) -> None:
    backend = MemoryBackend(store=store)
    async with asyncio.TaskGroup() as tasks:
        read = tasks.create_task(backend.read_work("w", [0], 10, 60_000))
        await until_waiting(clock)
        store.clear()
        await backend.submit(0, "normal", b"x")
    assert len(read.result()) == 1


async def test_a_write_from_another_thread_wakes_the_reader() -> None:
    store = Store()
    backend = MemoryBackend(store=store)

    async def write() -> None:
        await MemoryBackend(store=store).submit(0, "high", b"from afar")

    thread = threading.Thread(target=lambda: asyncio.run(write()))
    async with asyncio.timeout(5), asyncio.TaskGroup() as tasks:
        read = tasks.create_task(backend.read_work("w", [0], 10, 4_000))
        while not len(store.room):
            await asyncio.sleep(0)
        thread.start()
    thread.join()
    assert read.result()[0].fields == {b"e": b"from afar"}


async def test_steps_of_many_threads_do_not_lose_one_another() -> None:
    store = Store()

    async def write(name: str) -> None:
        backend = MemoryBackend(store=store)
        for n in range(200):
            await backend.submit(0, "high", f"{name}{n}".encode())

    threads = [threading.Thread(target=lambda name=name: asyncio.run(write(name))) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    entries = await MemoryBackend(store=store).read_work("w", [0], 1_000, 0)
    assert len({entry.fields[b"e"] for entry in entries}) == len({entry.id for entry in entries}) == 800


class Crash(Exception):
    """What a test raises at a step."""


async def test_hooks_crash_before_and_after_a_step(store: Store) -> None:
    seen: list[str] = []

    def crash(name: str) -> None:
        seen.append(name)
        raise Crash

    with pytest.raises(Crash):
        await MemoryBackend(store=store, before_step=crash).submit(0, "high", b"never")
    with pytest.raises(Crash):
        await MemoryBackend(store=store, after_step=crash).submit(0, "high", b"done")
    assert seen == ["submit", "submit"]
    plain = MemoryBackend(store=store)
    with pytest.raises(Crash):
        await MemoryBackend(store=store, after_step=crash).read_work("w", [0], 5, 0)
    assert [entry.fields[b"e"] for entry in await plain.own_work("w", 0)] == [b"done"]
