"""FLUSHALL takes everybody's registration, inbox and mailbox: all are back within two seconds, and nothing is refused meanwhile."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
import redis.asyncio

from reach import Agent, Reach, Receipt
from reach.backend.keys import KeySpace
from reach.testing import wait_until
from tests.integration.sdk.world import router
from tests.lag import in_time, lagging

BACK_S = 2.0
LOOKED_AT_S = 7.0  # longer than it takes until every agent has beaten once
PATIENT_S = 15.0  # how long a test waits before it says that it will never be


class Town:
    """A router, agents with capabilities and types of their own, and a client."""

    def __init__(self, reach: Reach, agents: list[Agent]) -> None:
        self.reach = reach
        self.agents = agents

    def asks(self) -> list[Callable[[], Awaitable[Receipt[Any]]]]:
        """A request for each agent in every way that it can be meant."""
        made: list[Callable[[], Awaitable[Receipt[Any]]]] = []
        for number in range(len(self.agents)):
            for target, kind in (
                (f"capability:work-{number}", "request"),
                (f"agent_id:agent-{number}", "request"),
                (f"agent_id:agent-{number}", f"news.n{number}"),
            ):
                made.append(lambda target=target, kind=kind: self.reach.request(target, 1, type=kind, timeout=10))  # type: ignore[misc]
        return made


def agent_of(number: int) -> Agent:
    agent = Agent(f"agent-{number}")

    @agent.capability(f"work-{number}")
    async def work(body: Any) -> Any:
        return body

    @agent.on(f"news.n{number}")
    async def news(body: Any) -> Any:
        return body

    return agent


@pytest.fixture
async def town(redis_url: str) -> AsyncIterator[Town]:
    agents = [agent_of(number) for number in range(4)]
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(router(redis_url))
        for agent in agents:  # one after the other: they beat at different moments, and learn of a flush one by one
            await stack.enter_async_context(agent.running(redis_url, grace=0))
            await asyncio.sleep(0.7)
        reach = await stack.enter_async_context(Reach.connect(redis_url, agent_id="tester"))
        await all_have_beaten(reach, len(agents))
        yield Town(reach, agents)


async def test_nothing_is_refused_after_a_flush_and_all_is_back_within_two_seconds(
    town: Town, raw: redis.asyncio.Redis
) -> None:
    before = await asyncio.gather(*(ask() for ask in town.asks()))
    assert {receipt.code for receipt in before} == {"ok"}
    ended: list[tuple[float, float, Receipt[Any]]] = []
    tasks: list[asyncio.Task[None]] = []

    async def asked(ask: Callable[[], Awaitable[Receipt[Any]]]) -> None:
        at = time.monotonic() - flushed
        receipt = await ask()
        ended.append((at, time.monotonic() - flushed, receipt))

    await raw.flushall()
    flushed = time.monotonic()
    async with lagging() as lag:
        while time.monotonic() - flushed < LOOKED_AT_S:
            tasks += [asyncio.create_task(asked(ask)) for ask in town.asks()]
            await asyncio.sleep(0.25)
        await asyncio.gather(*tasks)
    assert {receipt.code for _, _, receipt in ended} == {"ok"}
    late = [(round(at, 2), round(end, 2)) for at, end, _ in ended if end > max(at, BACK_S) + lag.allowed_s]
    assert not late, late


async def test_a_type_that_nobody_has_is_still_refused_at_once(town: Town, raw: redis.asyncio.Redis) -> None:
    async with in_time(0.5):
        receipt = await town.reach.request("capability:work-1", 1, type="of.nobody", timeout=10)
    assert receipt.code == "type.unregistered"
    await raw.flushall()
    await wait_until(lambda: raw.exists(KeySpace("dev").mail(0, town.reach.mailbox_id)), PATIENT_S)
    receipt = await town.reach.request("capability:work-1", 1, type="of.nobody", timeout=20)
    assert receipt.code == "type.unregistered"  # some seconds later: who offers it might not be back yet


async def test_busy_agents_come_back_as_well(redis_url: str, raw: redis.asyncio.Redis) -> None:
    """One that has no free slot takes nothing, and learns of the flush all the same."""
    go = asyncio.Event()
    agent = Agent("busy", concurrency=1)

    @agent.capability("hang")
    async def hang() -> None:
        await go.wait()

    async with router(redis_url), agent.running(redis_url, grace=0), Reach.connect(redis_url) as reach:
        handle = await reach.send("capability:hang", timeout=30)
        await wait_until(lambda: len(agent.instances[0].runs) == 1)
        await all_have_beaten(reach, 1)
        await raw.flushall()
        async with in_time(BACK_S):
            await wait_until(lambda: _registered(reach), PATIENT_S)
        go.set()
        await handle.cancel()


async def all_have_beaten(reach: Reach, count: int) -> None:
    """Each by itself, so that the next beat is seconds away: the registrar's first beat for them says nothing."""

    async def beaten() -> bool:
        _, beats = await reach.backend.last_beats(0)
        return sum(b"partitions" in last.beat for last in beats) == count

    await wait_until(beaten)


async def _registered(reach: Reach) -> bool:
    return await reach.backend.registered("busy") is not None
