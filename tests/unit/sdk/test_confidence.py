"""min_confidence: one other agent is asked for a better answer, and the better one ends it."""

import asyncio
from typing import Annotated, Any

import msgspec
import pytest

from reach import Agent, Result, Status
from reach.testing import TestReach, wait_until

CITY = Annotated[str, msgspec.Meta(min_length=1)]


class Weather(msgspec.Struct):
    city: CITY
    degrees: float


def oracle(name: str, answers: list[Any], asked: list[str]) -> Agent:
    """Gives one of these answers after the other; raises those that are errors."""
    agent = Agent(name)

    @agent.capability("weather")
    async def weather(body: Any) -> Any:
        asked.append(name)
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return agent


async def told(answers: dict[str, list[Any]], **options: Any) -> tuple[Any, list[str]]:
    """The receipt, and who was asked, in order. All of one capability; the first is asked by its name where it is alone."""
    asked: list[str] = []
    async with TestReach(*(oracle(name, list(given), asked) for name, given in answers.items())) as bus:
        handle = await bus.send("capability:weather", 1, **options)
        await bus.advance(1)
        return await handle.receipt(0), asked


@pytest.mark.parametrize("second", [0.9, None])
async def test_the_other_one_may_be_sure(second: float | None) -> None:
    both = [Result("guess", confidence=0.4)], [Result("known", confidence=second)]
    for first, other in (both, both[::-1]):  # whoever is chosen first
        receipt, asked = await told({"a": first, "b": other}, min_confidence=0.8)
        assert (receipt.output, receipt.partial, receipt.confidence) == ("known", False, second)
        assert len(asked) == receipt.attempts == (2 if receipt.target_agent != asked[0] else 1)


async def test_the_better_of_two_guesses_is_delivered_as_partial() -> None:
    receipt, asked = await told(
        {"a": [Result("x", confidence=0.4)], "b": [Result("y", confidence=0.5)]}, min_confidence=0.8
    )
    assert (receipt.status, receipt.output, receipt.partial, receipt.target_agent) == (Status.SUCCESS, "y", True, "b")
    assert sorted(asked) == ["a", "b"]
    assert receipt.ok


async def test_where_nobody_else_can_be_asked_it_is_delivered_at_once() -> None:
    receipt, asked = await told({"a": [Result("x", confidence=0.4), "never"]}, min_confidence=0.8)
    assert (receipt.output, receipt.partial, receipt.attempts, asked) == ("x", True, 1, ["a"])


@pytest.mark.parametrize("first", ["a", "b"])
async def test_a_guess_survives_the_failure_of_the_other(first: str) -> None:
    """The one that guesses is asked first: the other comes when the guess is there."""
    asked: list[str] = []
    guesser = oracle(first, [Result("x", confidence=0.4)], asked)
    async with TestReach(guesser) as bus:
        await bus.pause(guesser)
        handle = await bus.send("capability:weather", min_confidence=0.8, timeout=60)
        await bus.settle()
        await bus.start(oracle("other", [ValueError("down")], asked))
        await bus.resume(guesser)
        await bus.advance(1)
        receipt = await handle.receipt(0)
    assert asked == [first, "other"]
    assert (receipt.status, receipt.output, receipt.partial, receipt.target_agent) == (Status.SUCCESS, "x", True, first)


async def test_no_more_runs_than_are_allowed() -> None:
    answers = {"a": [Result("x", confidence=0.4)], "b": [Result("x", confidence=0.4)]}
    receipt, asked = await told(answers, min_confidence=0.8, max_attempts=1)
    assert (receipt.output, receipt.partial, len(asked)) == ("x", True, 1)


async def test_total_ends_with_the_guess() -> None:
    asked: list[str] = []

    async def weather() -> Any:
        asked.append("")
        if len(asked) > 1:
            await asyncio.Event().wait()
        return Result("x", confidence=0.4)

    agents = [Agent("slow-1"), Agent("slow-2")]
    for agent in agents:
        agent.capability("weather")(weather)
    async with TestReach(*agents) as bus:
        handle = await bus.send("weather", min_confidence=0.8, timeout=5)
        await bus.advance(6)
        receipt = await handle.receipt(0)
    assert (receipt.status, receipt.output, receipt.partial, receipt.attempts) == (Status.SUCCESS, "x", True, 2)


async def points(bus: TestReach, msg_id: str) -> list[tuple[str, str, int, str]]:
    """What the router has recorded of a message: point, agent, attempt, code."""
    batches = [msgspec.json.decode(batch) for _, batch in await bus.reach.backend.read_events(0, "0", 0)]
    records = [record for batch in batches for record in batch if record["msg_id"] == msg_id]
    routers = {record["worker"] for record in records if record["point"] == "message.received"}
    own = [record for record in records if record.get("worker") in routers]
    return [(r["point"], r.get("agent", ""), r.get("attempt", 0), r.get("code", "")) for r in own]


@pytest.mark.parametrize("end", ["nobody else", "total", "lost"])
async def test_what_ends_with_its_guess_is_told_as_an_answer(end: str) -> None:
    asked: list[str] = []
    guesser = oracle("guesser", [Result("x", confidence=0.4)], asked)
    other = Agent("other")

    @other.capability("weather")
    async def hang() -> None:
        asked.append("other")
        await asyncio.Event().wait()

    async with TestReach(guesser) as bus:
        if end != "nobody else":
            await bus.pause(guesser)
        handle = await bus.send("capability:weather", min_confidence=0.8, timeout=10 if end == "total" else 60)
        if end != "nobody else":
            await bus.settle()
            await bus.start(other)
            await bus.resume(guesser)
            await bus.advance(1)
            assert asked == ["guesser", "other"]
            await (bus.kill if end == "lost" else bus.pause)(other)
        await bus.advance(40)
        assert (await handle.receipt(0)).partial
        (leg,) = (await handle.status()).legs
        later = await bus.send("capability:nothing")
        await bus.settle()

        async def all_told() -> bool:  # a router writes its records in their order
            return "message.received" in {point for point, *_ in await points(bus, later.msg_id)}

        await wait_until(all_told)
        told = await points(bus, handle.msg_id)
    assert told[-1] == ("agent.completed", "guesser", 1, "ok")
    failures = {"route.failed", "message.expired", "message.dead"}
    assert failures.isdisjoint(point for point, *_ in told)
    assert (leg.state, leg.agent, leg.instance is not None) == ("done", "guesser", True)


async def test_a_policy_may_want_it_for_all() -> None:
    asked: list[str] = []
    agents = [oracle(name, [Result(name, confidence=0.4)], asked) for name in "ab"]
    async with TestReach(*agents) as bus:
        await bus.reach.backend.set_meta("routes", "capability:weather", b'{"min_confidence":0.8}')
        await bus.settle()
        handle = await bus.send("capability:weather")
        await bus.advance(1)
        assert (await handle.receipt(0)).partial
    assert sorted(asked) == ["a", "b"]


async def test_an_answer_that_is_not_what_its_handler_says_counts_as_no_confidence() -> None:
    """The half answer with an empty city."""
    half, whole = Agent("half"), Agent("whole")

    @half.capability("weather")
    async def empty() -> Weather:
        return Weather("", 3.0)

    @whole.capability("weather")
    async def full() -> Result[Weather]:
        return Result(Weather("Oslo", 3.0), confidence=0.9)

    async with TestReach(half) as bus:
        receipt = await bus.request("weather")
        assert (receipt.ok, receipt.confidence, receipt.partial) == (True, 0.0, False)
        assert "length" in receipt.details["unfit"]
    async with TestReach(half, whole) as bus:
        for _ in range(4):
            handle = await bus.send("weather", min_confidence=0.5)
            await bus.advance(1)
            assert (await handle.receipt(0, returns=Weather)).output == Weather("Oslo", 3.0)


@pytest.mark.parametrize("wrong", [-0.1, 1.1, "sure", True])
async def test_what_is_no_confidence_is_refused(wrong: Any) -> None:
    async with TestReach() as bus:
        with pytest.raises((TypeError, ValueError), match="min_confidence is"):
            await bus.send("weather", min_confidence=wrong)
