"""Budgets and loops on real servers, with two routers that share the work."""

from typing import Any

import pytest

from reach import Agent, Context, Reach, Result
from reach.testing import wait_until
from tests.integration.sdk.world import router


@pytest.mark.parametrize(
    ("budget", "told"),
    [
        ({"hops": 4}, ["ok"] * 4 + ["budget.exceeded"] * 2),
        ({"cost": 1.0}, ["ok"] * 3 + ["budget.exceeded"] * 3),
        ({"tokens": 400}, ["ok"] * 4 + ["budget.exceeded"] * 2),
    ],
)
async def test_a_budget_is_that_of_the_conversation(redis_url: str, budget: dict[str, float], told: list[str]) -> None:
    boss, helper = Agent("boss"), Agent("helper-{instance}")

    @boss.capability("boss")
    async def ask(ctx: Context) -> list[str]:
        return [(await ctx.request("helper", n, timeout=20)).code for n in range(6)]

    @helper.capability("helper")
    async def work(body: Any) -> Any:
        return Result("done", cost=0.4, tokens=100)

    async with router(redis_url, "w1"), router(redis_url, "w2"), boss.running(redis_url), helper.running(redis_url):
        async with Reach.connect(redis_url) as reach:
            assert await reach.ask("boss", budget=budget, timeout=25) == told


async def test_two_that_thank_each_other_are_stopped(redis_url: str) -> None:
    heard: list[str] = []
    codes: list[str] = []

    def polite(name: str, other: str) -> Agent:
        agent = Agent(name, concurrency=32)  # each waits for what the other says

        @agent.capability(name)
        async def thank(body: Any, ctx: Context) -> None:
            heard.append(name)
            codes.append((await ctx.request(f"capability:{other}", "thank you", timeout=20)).code)

        return agent

    async with router(redis_url, "w1"), router(redis_url, "w2"):
        async with polite("a", "b").running(redis_url), polite("b", "a").running(redis_url):
            async with Reach.connect(redis_url) as reach:
                handle = await reach.send("a", "hello", timeout=25)
                await wait_until(lambda: len(codes) == 17, 20, "the end of all")
                assert (await handle.receipt(5)).ok
    assert (len(heard), codes[0]) == (17, "loop.detected")
