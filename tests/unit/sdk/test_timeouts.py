"""Three timeouts for each message: what an agent declares raises two of them, and the caller waits as long as the ledger does."""

import asyncio
import threading
from typing import Any

import pytest

from reach import Agent, Context
from reach.testing import TestReach

TIERS = [10, 60, 300, 137.5]


def worker(name: str, run_s: float, bus: TestReach, max_process: float | None = None, tries: int = 0) -> Agent:
    """Takes `run_s` for each message, with no sign of life; the first `tries` runs fail at once."""
    agent = Agent(name)

    @agent.capability("work", max_process=max_process)
    async def work(ctx: Context) -> str:
        if ctx.attempt <= tries:
            raise ValueError("not yet")
        await bus.clock.sleep(round(run_s * 1000))
        return name

    return agent


async def ended(bus: TestReach, seconds: float, **options: Any) -> Any:
    handle = await bus.send("work", **options)
    await bus.advance(seconds)
    return await handle.receipt(0)


# ---------------------------------------------------------------- what an agent declares


@pytest.mark.parametrize("of", ["agent", "capability"])
@pytest.mark.parametrize("tier", TIERS)
async def test_a_run_of_nearly_its_tier_ends_well_and_the_caller_waits_for_it(tier: float, of: str) -> None:
    async with TestReach() as bus:
        agent = Agent("one", max_process=tier if of == "agent" else None)

        @agent.capability("work", max_process=tier if of == "capability" else None)
        async def work(ctx: Context) -> int:
            await bus.clock.sleep(round(tier * 1000) - 500)
            return ctx.attempt

        await bus.start(agent)
        receipt = await ended(bus, tier + 1)
        assert (receipt.code, receipt.output) == ("ok", 1)


@pytest.mark.parametrize("tier", TIERS)
async def test_a_run_longer_than_its_tier_is_cancelled_there(tier: float) -> None:
    ended_after: list[int] = []
    async with TestReach() as bus:
        agent = Agent("one", max_process=tier)

        @agent.capability("work")
        async def work(ctx: Context) -> None:
            begun = bus.clock.monotonic_ms()
            try:
                await asyncio.Event().wait()
            finally:
                ended_after.append(bus.clock.monotonic_ms() - begun)

        await bus.start(agent)
        receipt = await ended(bus, tier * 2 + 60, max_attempts=1)
        assert ended_after == [round(tier * 1000)]
        assert (receipt.code, receipt.attempts) == ("timeout.processing", 1)
        assert receipt.details["state"] == "running"
        assert (receipt.target_agent, receipt.status) == ("one", "retryable")


async def test_what_the_sender_sets_is_not_raised() -> None:
    async with TestReach() as bus:
        await bus.start(worker("one", 50, bus, max_process=60))
        receipt = await ended(bus, 20, timeout=20)
        assert (receipt.code, receipt.details["state"], receipt.attempts) == ("timeout.total", "running", 1)


# ---------------------------------------------------------------- and learns it also later


async def test_a_retry_with_a_slower_agent_has_its_time_and_the_caller_waits() -> None:
    """The first answers at once and fails, so that the message was sent with the default total of 30 s."""
    async with TestReach() as bus:
        hasty = worker("a-hasty", 0, bus, tries=6)
        await bus.start(hasty)
        handle = await bus.send("work")
        await bus.advance(0.5)
        await bus.start(worker("b-slow", 50, bus, max_process=60))
        await bus.advance(55)
        receipt = await handle.receipt(0)
        assert (receipt.output, receipt.attempts) == ("b-slow", 2)


async def test_a_move_to_a_slower_agent_has_its_time_and_the_caller_waits() -> None:
    async with TestReach() as bus:
        dead = worker("a-dead", 0, bus)
        await bus.start(dead)
        await bus.kill(dead)
        handle = await bus.send("work")
        await bus.start(worker("b-slow", 50, bus, max_process=60))
        await bus.advance(60)
        receipt = await handle.receipt(0)
        assert (receipt.output, receipt.attempts) == ("b-slow", 1)


async def test_an_agent_that_comes_while_it_waits_has_its_time_and_the_caller_waits() -> None:
    async with TestReach() as bus:
        handle = await bus.send("work")
        await bus.advance(1)
        await bus.start(worker("slow", 50, bus, max_process=60))
        await bus.advance(55)
        assert (await handle.receipt(0)).output == "slow"


async def test_with_a_timeout_of_its_own_the_caller_waits_no_longer_for_a_slower_agent() -> None:
    async with TestReach() as bus:
        handle = await bus.send("work", timeout=20)
        await bus.advance(1)
        await bus.start(worker("slow", 50, bus, max_process=60))
        await bus.advance(20)
        receipt = await handle.receipt(0)
        assert (receipt.code, receipt.details["state"]) == ("timeout.total", "running")


# ---------------------------------------------------------------- a handler in a thread, which nothing can stop


@pytest.mark.parametrize(
    ("options", "after_s", "code"),
    [
        ({"timeout": 40, "max_attempts": 1}, 15, "timeout.processing"),
        ({"timeout": 5}, 5, "timeout.total"),
        ({"timeout": 40}, 3, "cancelled"),
    ],
)
async def test_a_plain_handler_sees_that_its_result_is_no_longer_wanted(
    options: dict[str, Any], after_s: int, code: str
) -> None:
    seen: list[bool] = []
    look, over = threading.Event(), threading.Event()

    def work(ctx: Context) -> str:
        seen.append(ctx.cancelled)
        look.wait(10)
        seen.append(ctx.cancelled)
        over.set()
        return "too late"

    agent = Agent("one")
    agent.capability("work")(work)
    async with TestReach(agent) as bus:
        handle = await bus.send("work", **options)
        for _ in range(after_s * 10 + 12):  # by hand: `advance` waits for threads, and this one waits for us
            if code == "cancelled" and bus.clock.monotonic_ms() % 1_000 == 0 and seen == [False]:
                await handle.cancel()
            bus.clock.advance(100)
            for _ in range(20):
                await asyncio.sleep(0)
        look.set()
        await asyncio.to_thread(over.wait, 10)
        await bus.advance(5)
        assert seen == [False, True]
        assert (await handle.receipt(0)).code == code
