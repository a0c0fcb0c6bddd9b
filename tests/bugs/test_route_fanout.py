"""ROUTE-FANOUT: who gets a broadcast and how often, and that nobody waits for an answer that cannot come."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from reach import Agent, Context, Receipt, Status
from reach.errors import EnvelopeError
from reach.testing import TestReach
from tests.bugs.served import served

# ---------------------------------------------------------------- B147: twice to one that matches twice


class Choir:
    """Agents that match by several of their capabilities and groups, and what each has heard."""

    def __init__(self) -> None:
        self.heard: Counter[tuple[str, str]] = Counter()
        self.agents = [
            self._agent("alto", ("a.high", "a.low", "b"), ("north", "south")),
            self._agent("bass", ("a.low", "a.low.deep", "b"), ("south",)),
            self._agent("solo", ("a.high",), ("north", "north")),
        ]

    def _agent(self, agent_id: str, capabilities: tuple[str, ...], groups: tuple[str, ...]) -> Agent:
        agent = Agent(agent_id, groups=groups, concurrency=16)

        async def sing(ctx: Context) -> str:
            self.heard[agent_id, ctx.msg_id] += 1
            return agent_id

        for capability in capabilities:
            agent.capability(capability)(sing)
        agent.on("song")(sing)
        return agent


ALL, TWO = {"alto", "bass", "solo"}, {"alto", "bass"}


@pytest.mark.parametrize(
    ("pattern", "reached"),
    [
        ("capability:a.*", ALL),
        ("capability:a.low.*", {"bass"}),
        ("capability:a.low", TWO),
        ("capability:a.low+b", TWO),
        ("capability:a.*+b", TWO),
        ("capability:a.*+a.low+a.high", {"alto"}),
        ("capability:b+b", TWO),
        ("group:south", TWO),
        ("group:north", {"alto", "solo"}),
        ("agent_id:alto", {"alto"}),
    ],
)
async def test_B147_each_that_matches_gets_a_broadcast_once(redis_url: str, pattern: str, reached: set[str]) -> None:
    choir = Choir()
    async with served(redis_url, *choir.agents, routers=2) as reach:
        kind = "request" if pattern.startswith("capability:") else "song"
        replies = await reach.request(pattern, scope="all", type=kind, timeout=10)
        assert sorted(str(one.output) for one in replies) == sorted(reached)
        assert {one.code for one in replies} == {"ok"}
        assert sorted(choir.heard) == sorted((agent_id, next(iter(replies)).msg_id) for agent_id in reached)
        assert set(choir.heard.values()) == {1}


async def test_B147_two_instances_of_one_agent_are_one_member(redis_url: str) -> None:
    choir, twins = Choir(), Choir()
    async with (
        served(redis_url, *choir.agents) as reach,
        twins.agents[0].running(redis_url, grace=0),
    ):
        replies = await reach.request("capability:a.*", scope="all", timeout=10)
        assert sorted(str(one.output) for one in replies) == sorted(ALL)
        assert sum((choir.heard + twins.heard).values()) == 3


@pytest.mark.parametrize("pattern", ["*", "capability:*", "capability:", "a.*.b", "capability:a,capability:b"])
async def test_B147_a_pattern_that_there_is_not_is_refused_and_reaches_nobody(redis_url: str, pattern: str) -> None:
    choir = Choir()
    async with served(redis_url, *choir.agents) as reach:
        with pytest.raises(EnvelopeError) as told:
            await reach.send(pattern, scope="all", timeout=10)
        assert told.value.code == "target.bad_pattern"
        assert not choir.heard


# ---------------------------------------------------------------- B150, B152: who is asked and cannot answer


def helper(calls: Counter[str]) -> Agent:
    agent = Agent("helper")

    @agent.capability("raises")
    async def raises() -> None:
        calls["raises"] += 1
        raise ValueError("it breaks")

    @agent.capability("nothing")
    async def nothing() -> None:
        calls["nothing"] += 1

    @agent.on("note")
    async def note() -> str:
        return "noted"

    return agent


@asynccontextmanager
async def bus(calls: Counter[str] | None = None) -> AsyncIterator[TestReach]:
    async with TestReach(helper(calls if calls is not None else Counter())) as made:
        yield made


async def answered(made: TestReach, target: str, within_s: float, **options: Any) -> Receipt[Any]:
    """The receipt, which must be there within so much time of the test's clock; total is 30 s."""
    handle = await made.send(target, **options)
    await made.advance(within_s)
    return await handle.receipt(0)


async def test_B150_a_handler_that_raises_is_an_answer_long_before_the_timeout() -> None:
    calls: Counter[str] = Counter()
    async with bus(calls) as made:
        receipt = await answered(made, "capability:raises", 0.5, max_attempts=1)
        assert (receipt.status, receipt.code, receipt.attempts) == (Status.RETRYABLE, "handler.error", 1)
        assert "it breaks" in (receipt.error_message or "")
        # Tried again as often as it may be, it ends all the same, as soon as the last one has.
        again = await answered(made, "capability:raises", 1 * 1.2 + 2 * 1.2 + 1, max_attempts=3)
        assert (again.code, again.attempts, calls["raises"]) == ("handler.error", 3, 4)


async def test_B150_a_handler_that_returns_nothing_has_answered_nothing() -> None:
    async with bus() as made:
        receipt = await answered(made, "capability:nothing", 0.5)
        assert (receipt.code, receipt.output) == ("ok", None)


async def test_B150_a_type_that_nobody_has_registered_is_refused_at_once() -> None:
    async with bus() as made:
        receipt = await answered(made, "capability:nothing", 0.5, type="unheard.of")
        assert (receipt.status, receipt.code) == (Status.FAILED, "type.unregistered")


async def test_B150_an_agent_without_a_handler_for_it_says_so() -> None:
    """It accepts the type (it has a handler for it, of another capability), and has none for this."""
    calls: Counter[str] = Counter()
    agent = Agent("narrow", capabilities=("declared",))

    @agent.capability("other")
    async def other() -> None:
        calls["other"] += 1

    async with TestReach(agent) as made:
        receipt = await answered(made, "capability:declared", 0.5)
        assert (receipt.status, receipt.code) == (Status.FAILED, "error.unknown_type")
        assert receipt.details["supported"]
        assert not calls


async def test_B150_on_a_server_every_one_of_them_is_told(redis_url: str) -> None:
    async with served(redis_url, helper(Counter())) as reach:
        receipts = await asyncio.gather(
            reach.request("capability:raises", timeout=20, max_attempts=1),
            reach.request("capability:nothing", timeout=20),
            reach.request("capability:nothing", timeout=20, type="unheard.of"),
        )
        assert [one.code for one in receipts] == ["handler.error", "ok", "type.unregistered"]


UNKNOWN = ["agent_id:nobody", "capability:nothing.of.this", "group:nowhere", "capability:nothing+raises+more"]


@pytest.mark.parametrize("target", UNKNOWN)
async def test_B152_who_is_not_there_is_told_after_network_and_not_after_total(target: str) -> None:
    """3 s of 30: somebody may be about to appear."""
    async with bus() as made:
        one, each = await made.send(target), await made.send(target, scope="all")
        await made.advance(2.5)
        assert {(await handle.status()).state for handle in (one, each)} == {"open"}
        await made.advance(1)
        receipts = [await one.receipt(0), *await each.receipts(0)]
        assert [receipt.code for receipt in receipts] == ["route.not_found"] * 2
        assert {receipt.status for receipt in receipts} == {Status.FAILED}


@pytest.mark.parametrize(
    "target", ["", " ", "capability:", "agent_id:", "nonsense:x", "capability:UPPER", "agent_id:a b"]
)
async def test_B152_a_target_that_is_none_is_refused_before_it_is_sent(target: str) -> None:
    async with bus() as made:
        with pytest.raises(EnvelopeError) as told:
            await made.send(target)
        assert told.value.code == "target.bad_pattern"


async def test_B152_an_agent_that_has_been_dead_for_an_hour_is_like_one_that_never_was() -> None:
    agent = helper(Counter())
    async with TestReach(agent) as made:
        assert (await answered(made, "capability:nothing", 0.5)).ok
        await made.kill(agent)
        await made.advance(3_600)
        for target in ("agent_id:helper", "capability:nothing"):
            handle = await made.send(target)
            await made.advance(3.5)
            receipt = await handle.receipt(0)
            assert (receipt.status, receipt.code) == (Status.FAILED, "route.not_found")


async def test_B152_on_a_server_nobody_waits_for_the_total(redis_url: str) -> None:
    async with served(redis_url) as reach:
        receipts = await asyncio.gather(*(reach.request(target, timeout=600) for target in UNKNOWN))
        assert [receipt.code for receipt in receipts] == ["route.not_found"] * len(UNKNOWN)
