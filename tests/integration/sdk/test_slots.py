"""An instance with one slot holds one message, whatever lies in its lanes and partitions: the next one is for whoever is idle."""

import asyncio
from collections import Counter
from contextlib import AsyncExitStack

import pytest
import redis.asyncio

from reach import Agent, Context, Reach
from reach.backend.keys import GROUP_AGENT, LANES, KeySpace
from reach.testing import wait_until
from tests.integration.sdk.world import router

KEYS = KeySpace("dev")
PRIORITIES = (1, 5, 9, 5, 1, 9, 5, 9, 1, 5)


@pytest.mark.parametrize("count", [1, 4])
async def test_with_one_slot_an_instance_holds_one_message_and_another_takes_the_next(
    redis_url: str, raw: redis.asyncio.Redis, count: int
) -> None:
    await raw.hset(KEYS.meta(), "partitions", str(count))
    running, most, ran = Counter[str](), Counter[str](), Counter[str]()
    go = asyncio.Event()

    def instance(name: str) -> Agent:
        agent = Agent("one", concurrency=1)

        @agent.capability("work")
        async def work(ctx: Context) -> None:
            ran[name] += 1
            running[name] += 1
            most[name] = max(most[name], running[name])
            await go.wait()
            running[name] -= 1

        return agent

    async def held() -> list[int]:
        """How many entries are pending to each consumer, over all lanes and partitions."""
        found: Counter[str] = Counter()
        for partition in range(count):
            for lane in LANES:
                rows = await raw.xpending_range(KEYS.inbox(partition, "one", lane), GROUP_AGENT, "-", "+", 100)
                found.update(str(row["consumer"]) for row in rows)
        return sorted(found.values())

    async with AsyncExitStack() as stack:
        await stack.enter_async_context(router(redis_url))
        reach = await stack.enter_async_context(Reach.connect(redis_url, agent_id="tester"))
        await stack.enter_async_context(instance("first").running(redis_url, grace=0))
        handles = [await reach.send("work", priority=priority, timeout=30) for priority in PRIORITIES]
        await wait_until(lambda: running.total() == 1, 10, "the first start")
        assert await held() == [1]
        await stack.enter_async_context(instance("second").running(redis_url, grace=0))
        await wait_until(lambda: running.total() == 2, 10, "the start by the other")
        assert await held() == [1, 1]
        go.set()
        receipts = [await handle.receipt(20) for handle in handles]
        assert {receipt.code for receipt in receipts} == {"ok"}
        assert (most["first"], most["second"], ran.total()) == (1, 1, len(PRIORITIES))
