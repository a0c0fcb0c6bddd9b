"""An agent that declares a rate limit: no more than that is handed to it, whoever sends; what is over it waits for its turn or is told."""

import asyncio
from typing import Any

import pytest

from reach import Agent, ConfigError, Overloaded
from reach.testing import TestReach


def slow_lane(*, name: str = "llm", **options: Any) -> tuple[Agent, list[float]]:
    """An agent, and the moments at which its runs began."""
    agent, began = Agent(name, concurrency=64, **options), []

    @agent.capability("think")
    async def think() -> str:
        began.append(asyncio.get_running_loop().time())
        return name

    return agent, began


async def test_a_minutes_worth_at_once_and_then_one_after_the_other() -> None:
    agent, began = slow_lane(rate_limit=6)
    async with TestReach(agent) as bus:
        calls = [asyncio.create_task(bus.request("think", timeout=120, ttl=120)) for _ in range(9)]
        await bus.advance(1)
        assert len(began) == 6
        for more in (7, 8, 9):
            await bus.advance(10.5)
            assert len(began) == more
        assert {(await call).code for call in calls} == {"ok"}


async def test_what_cannot_have_its_turn_in_time_is_told_when_to_come_back() -> None:
    agent, began = slow_lane(rate_limit=2)
    async with TestReach(agent) as bus:
        calls = [asyncio.create_task(bus.request("think", timeout=20)) for _ in range(3)]
        await bus.advance(1)
        receipts = [await call for call in calls]
        (refused,) = (receipt for receipt in receipts if not receipt.ok)
        assert (refused.status, refused.code) == ("retryable", "overloaded")
        assert 29_000 < (refused.retry_after_ms or 0) <= 30_000
        assert refused.details["reasons"][0]["filter"] == "capacity"
        assert len(began) == 2
        with pytest.raises(Overloaded):
            await bus.ask("think", timeout=20)


async def test_another_agent_gets_what_is_over_the_limit_of_the_first() -> None:
    limited, _ = slow_lane(rate_limit=1, name="limited")
    free, _ = slow_lane(name="free")
    async with TestReach(limited, free) as bus:
        calls = [asyncio.create_task(bus.request("think")) for _ in range(30)]
        await bus.advance(1)
        outputs = [(await call).output for call in calls]
        assert outputs.count("limited") <= 1
        assert outputs.count("free") >= 29


async def test_who_waits_for_a_limit_sees_who_comes_meanwhile() -> None:
    limited, began = slow_lane(rate_limit=3, name="limited")
    free, _ = slow_lane(name="free")
    async with TestReach(limited) as bus:
        calls = [asyncio.create_task(bus.request("think")) for _ in range(4)]
        await bus.advance(1)
        assert len(began) == 3
        await bus.start(free)
        await bus.advance(3)
        assert all(call.done() for call in calls)
        outputs = [(await call).output for call in calls]
        assert (outputs.count("free"), outputs.count("limited")) == (1, 3)


async def test_whoever_was_given_a_turn_has_it_however_many_come_meanwhile() -> None:
    agent, began = slow_lane(rate_limit=30)
    async with TestReach(agent) as bus:
        loop, took = asyncio.get_running_loop(), []

        async def ask() -> None:
            asked_at = bus.clock.monotonic_ms()
            receipt = await bus.request("think", timeout=20)
            took.append((receipt.code, bus.clock.monotonic_ms() - asked_at))

        calls = []
        for _ in range(120):
            calls.append(loop.create_task(ask()))
            await bus.advance(0.5)
        await bus.advance(21)
        await asyncio.gather(*calls)
        refused = [ms for code, ms in took if code == "overloaded"]
        assert len(refused) + len(began) == 120
        assert refused, "more come than may go"
        assert max(refused) < 1_000, "who is refused is told at once, and nobody behind whom it has waited for"


async def test_a_broadcast_is_paid_by_each_agent_for_itself() -> None:
    limited, began = slow_lane(rate_limit=1, name="limited")
    free, _ = slow_lane(name="free")
    async with TestReach(limited, free) as bus:
        await bus.send("capability:think", scope="all")
        call = asyncio.create_task(bus.request("capability:think", scope="all", timeout=100, ttl=100))
        await bus.advance(1)
        assert len(began) == 1
        assert not call.done(), "one leg is done, the other waits for its minute"
        await bus.advance(60)
        assert [receipt.ok for receipt in await call] == [True, True]
        assert len(began) == 2


async def test_tokens_are_what_the_sender_says_that_it_needs() -> None:
    agent, began = slow_lane(rate_limit={"tokens": 6_000})
    async with TestReach(agent) as bus:
        calls = [
            asyncio.create_task(bus.request("think", needs={"context_tokens": 2_500}, timeout=60, ttl=60))
            for _ in range(3)
        ]
        calls.append(asyncio.create_task(bus.request("think")))
        await bus.advance(1)
        assert len(began) == 3, "two of 2,500, and the one that says nothing"
        await bus.advance(15)
        assert len(began) == 4
        assert {(await call).code for call in calls} == {"ok"}


async def test_a_repeat_of_a_message_costs_nothing() -> None:
    agent, began = slow_lane(rate_limit=2)
    async with TestReach(agent) as bus:
        for _ in range(4):
            call = asyncio.create_task(bus.request("think", key="the same"))
            await bus.advance(0.2)
            assert (await call).ok
        call = asyncio.create_task(bus.request("think"))
        await bus.advance(0.2)
        assert (await call).ok
        assert len(began) == 2


async def test_who_has_too_little_context_left_does_not_get_it() -> None:
    agent, began = slow_lane()
    async with TestReach(agent) as bus:
        agent.report(context_left=1_000)
        await bus.advance(6)
        call = asyncio.create_task(bus.request("think", needs={"context_tokens": 2_000}, timeout=2))
        await bus.advance(2.5)
        receipt = await call
        assert receipt.code == "context.exceeded"
        assert receipt.details["reasons"][0]["reason"] == "has 1000 tokens of context left, 2000 are needed"
        call = asyncio.create_task(bus.request("think", needs={"context_tokens": 1_000}))
        await bus.advance(0.5)
        assert (await call).ok
        assert len(began) == 1


@pytest.mark.parametrize("limit", [0, -1, {"messages": 0}, {"tokens": 0}, {}])
def test_a_limit_that_is_none_is_refused_with_its_field(limit: Any) -> None:
    with pytest.raises(ConfigError, match="rate_limit"):
        Agent("a", rate_limit=limit)


@pytest.mark.parametrize("limit", ["6", True, {"message": 1}, {"tokens": 1.5}, {"messages": "1"}])
def test_a_limit_of_another_type_is_a_type_error(limit: Any) -> None:
    with pytest.raises(TypeError, match="rate_limit"):
        Agent("a", rate_limit=limit)
