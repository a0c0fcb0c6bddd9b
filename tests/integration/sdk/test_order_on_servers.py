"""order_key on real servers: several agents and routers, a router that stops, an agent that is killed."""

import asyncio
from contextlib import AsyncExitStack
from itertools import pairwise
from typing import Any

import pytest

from reach import Agent, Reach, Receipt
from reach.testing import wait_until
from tests.integration.sdk.test_processes import registered
from tests.integration.sdk.world import agent_process, router


def worker(name: str, log: list[tuple[str, int]], running: dict[str, int]) -> Agent:
    """It says what it begins, and whether another one of the same key runs."""
    agent = Agent(name, concurrency=4)

    @agent.capability("note")
    async def note(body: dict[str, Any]) -> int:
        key, n = str(body["key"]), int(body["n"])
        running[key] = running.get(key, 0) + 1
        log.append((key, n if running[key] == 1 else -1))
        await asyncio.sleep(0.002)
        running[key] -= 1
        return n

    return agent


def handled_in_turn(receipts: list[Receipt[Any]]) -> bool:
    """By the clock of Redis: each was taken when the one before it had ended."""
    spans = [(receipt.finished_at - (receipt.duration_ms or 0), receipt.finished_at) for receipt in receipts]
    return all(before[1] <= after[0] for before, after in pairwise(spans))


async def test_three_keys_over_two_agents_and_two_routers_of_which_one_stops(redis_url: str) -> None:
    log: list[tuple[str, int]] = []
    running: dict[str, int] = {}
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(router(redis_url, "w1"))
        second = await stack.enter_async_context(AsyncExitStack())
        await second.enter_async_context(router(redis_url, "w2"))
        for name in ("one", "two"):
            await stack.enter_async_context(worker(name, log, running).running(redis_url, grace=0))
        reach = await stack.enter_async_context(Reach.connect(redis_url))

        async def send(key: str) -> list[Receipt[Any]]:
            handles = []
            for n in range(20):
                handles.append(await reach.send("capability:note", {"key": key, "n": n}, order_key=key))
                if (key, n) == ("a", 10):
                    await second.aclose()
            return [await handle.receipt(20) for handle in handles]

        told = await asyncio.gather(*map(send, ("a", "b", "c")))
        for key, receipts in zip(("a", "b", "c"), told, strict=True):
            assert [receipt.output for receipt in receipts] == list(range(20))
            assert handled_in_turn(receipts)
            assert [n for whose, n in log if whose == key] == list(range(20))


@pytest.mark.processes
@pytest.mark.leaves_work(why="a process is killed, and its consumer stays until it is swept")
@pytest.mark.long
async def test_the_line_goes_on_in_order_when_the_agent_of_its_first_is_killed(redis_url: str) -> None:
    async with (
        router(redis_url),
        Reach.connect(redis_url) as reach,
        agent_process(redis_url, "one") as first,
    ):
        await wait_until(lambda: registered(reach, "one"), 10, "the registration")
        options: Any = {"order_key": "k", "timeout": 60, "ttl": 60}
        handles = [await reach.send("capability:work", 0.3, **options) for _ in range(8)]

        async def third_runs() -> bool:
            return [leg.state for leg in (await handles[2].status()).legs] == ["running"]

        await wait_until(third_runs, 10, "the third run")
        first.kill()
        async with agent_process(redis_url, "two") as second:
            receipts = [await handle.receipt(40) for handle in handles]
        assert [receipt.code for receipt in receipts] == ["ok"] * 8
        assert [receipt.attempts for receipt in receipts] == [1, 1, 2, 1, 1, 1, 1, 1]
        assert [receipt.output for receipt in receipts] == [first.pid] * 2 + [second.pid] * 6
        assert handled_in_turn(receipts)
