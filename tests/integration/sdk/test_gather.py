"""Gather on real servers, with agents of two kinds and one that dies."""

import asyncio
from typing import Any

import pytest

from reach import Agent, Context, Reach
from tests.integration.sdk.world import router


def worker(name: str, go: asyncio.Event) -> Agent:
    agent = Agent(name, groups=("crew",))

    @agent.capability("work")
    async def work(body: Any, ctx: Context) -> list[Any]:
        if name == "slow":
            await go.wait()
        return [name, body]

    return agent


@pytest.mark.parametrize("target", ["group:crew", ["quick", "slow"]])
async def test_receipts_come_one_by_one_and_together(redis_url: str, target: Any) -> None:
    go = asyncio.Event()
    async with router(redis_url), worker("quick", go).running(redis_url), worker("slow", go).running(redis_url):
        async with Reach.connect(redis_url) as reach:
            group = reach.gather(target, 7, timeout=10)
            came = []
            async for receipt in group:
                came.append(receipt.output)
                go.set()  # the slow one only answers when the quick one's receipt was handed over
            assert came == [["quick", 7], ["slow", 7]]
            assert [r.output for r in sorted(await group, key=lambda r: r.target_agent or "")] == came
            assert reach.outstanding == 0


async def test_a_hundred_messages_at_once(redis_url: str) -> None:
    go = asyncio.Event()
    async with router(redis_url), worker("quick", go).running(redis_url):
        async with Reach.connect(redis_url, agent_id="asker") as reach:
            receipts = await reach.gather(["quick"] * 100, "x", timeout=10)
            assert receipts.ok
            assert len({r.msg_id for r in receipts}) == 100
            (once,) = {r.msg_id for r in await reach.gather(["quick"] * 100, "x", key="k", timeout=10)}
            assert once
