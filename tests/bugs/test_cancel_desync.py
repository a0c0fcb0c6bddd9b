"""Calls that are given up, and tasks that nobody holds."""

import asyncio
import gc
import random
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import redis.asyncio

from reach import Reach
from reach.backend.connection import Link
from reach.service import Report, Supervisor, Tasks
from reach.testing import wait_until
from tests.bugs.served import served
from tests.bugs.town import echo_agent
from tests.integration.sdk.world import router


@pytest.fixture
async def link(redis_url: str) -> AsyncIterator[Link]:
    made = Link(redis_url)
    yield made
    await made.close()


async def called(link: Link, text: bytes) -> Any:
    return await link.call("ECHO", text)


async def batched(link: Link, text: bytes) -> Any:
    first, second = await link.batch([["ECHO", text], ["ECHO", text]])
    return first if first == second else (first, second)


async def at_once(link: Link, text: bytes) -> Any:
    first, second = await link.atomic([["ECHO", text], ["ECHO", text]])
    return first if first == second else (first, second)


async def read_from(link: Link, text: bytes) -> Any:
    ((_, ((_, fields),)),) = await link.read("XREAD", "COUNT", 1, "STREAMS", b"box:" + text, "0")
    return fields[1]


async def waited(link: Link, text: bytes) -> Any:
    ((_, ((_, fields),)),) = await link.read("XREAD", "BLOCK", 50, "STREAMS", b"box:" + text, "0", block_ms=50)
    return fields[1]


WAYS: tuple[Callable[[Link, bytes], Awaitable[Any]], ...] = (called, batched, at_once, read_from, waited)


@pytest.mark.leaves("box:.*", why="the test puts it there")
@pytest.mark.parametrize("count", [1_500, pytest.param(100_000, marks=[pytest.mark.long, pytest.mark.timeout(900)])])
async def test_B060_a_cancelled_call_never_gives_its_reply_to_another(
    link: Link, raw: redis.asyncio.Redis, count: int
) -> None:
    rng, width, given_up = random.Random(7), 50, 0
    texts = [f"{number}".encode() for number in range(width)]
    for text in texts:
        await raw.xadd(b"box:" + text, {"says": text})

    async def ask(text: bytes) -> int:
        way = rng.choice(WAYS)
        try:
            async with asyncio.timeout(rng.random() * 0.004):
                assert await way(link, text) == text
        except TimeoutError:
            assert await way(link, text) == text
            return 1
        return 0

    for _ in range(0, count, width):
        given_up += sum(await asyncio.gather(*map(ask, texts)))
    assert given_up > count // 20


async def test_B060_a_caller_who_gives_up_gets_nobody_elses_receipt(redis_url: str) -> None:
    rng = random.Random(7)

    async def ask(reach: Reach, number: int) -> int:
        """Every second caller gives up within 50 ms."""
        try:
            async with asyncio.timeout(rng.random() * 0.05 if number % 2 else None):
                assert await reach.ask("echo", number) == number
        except TimeoutError:
            return 1
        return 0

    async with served(redis_url, echo_agent("echo")) as reach:
        given_up = 0
        for start in range(0, 300, 50):
            given_up += sum(await asyncio.gather(*(ask(reach, number) for number in range(start, start + 50))))
            assert reach.outstanding == 0
        assert given_up
        assert await reach.ask("echo", "x") == "x"


# ---------------------------------------------------------------- B062


class Waiting:
    """Waits for what nobody else knows of: only its owner keeps such a task alive."""

    name = "waiting"
    interval_ms = 0

    async def run_once(self) -> Report:
        await asyncio.get_running_loop().create_future()
        return {}


async def test_B062_a_task_that_only_waits_is_held_by_its_owner() -> None:
    tasks, supervisor = Tasks(), Supervisor([Waiting()])
    supervisor.start()
    tasks.start(Waiting().run_once(), "waiting")
    await asyncio.sleep(0)
    waiting = [weakref.ref(task) for task in asyncio.all_tasks() if "waiting" in task.get_name()]
    assert len(waiting) == 2
    for _ in range(3):
        await asyncio.sleep(0)
        gc.collect()
    assert [task() is not None for task in waiting] == [True, True]
    await tasks.close()
    await supervisor.stop(drain_ms=0)


async def test_B062_everybody_goes_on_under_a_busy_collector(redis_url: str) -> None:
    async with (
        router(redis_url) as supervisor,
        echo_agent("echo").running(redis_url),
        Reach.connect(redis_url) as reach,
    ):
        runs = {name: vitals.runs for name, vitals in supervisor.vitals.items()}
        often = {name for name in runs if name != "reaper"}
        for number in range(20):
            gc.collect()
            assert await reach.ask("echo", number) == number
        await wait_until(
            lambda: gc.collect() >= 0 and all(supervisor.vitals[name].runs > runs[name] + 1 for name in often),
            10,
            f"another run of each of {sorted(often)}",
        )
