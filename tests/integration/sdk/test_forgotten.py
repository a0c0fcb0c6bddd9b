"""The server forgets everything: agents are back within two seconds, and no caller is told meanwhile that nobody is there."""

import asyncio
import time
from collections import Counter
from contextlib import AsyncExitStack
from typing import Any

import pytest
import redis.asyncio

from reach import Agent, Reach, Receipt
from reach.backend.private_server import PrivateServer
from reach.testing import wait_until
from tests.integration.sdk.world import router
from tests.lag import lagging
from tests.servers import StartServer

WITHIN_S = 2.0
IDLE, BUSY = "idle", "busy"


def agents(free: asyncio.Event) -> list[Agent]:
    """One that waits for work, and one whose only slot is taken all the while."""
    idle, busy = Agent(IDLE), Agent(BUSY, concurrency=1)

    @idle.capability("echo")
    async def echo(body: object) -> object:
        return body

    @idle.on("own.kind")
    async def own(body: object) -> object:
        return body

    @busy.capability("hang")
    async def hang() -> None:
        await free.wait()

    return [idle, busy]


async def forget(server: PrivateServer, how: str) -> None:
    if how == "restart":
        await asyncio.to_thread(server.restart)
        return
    raw: Any = redis.asyncio.Redis.from_url(server.url, protocol=2)
    await raw.flushall()
    await raw.aclose()


async def next_beats(reach: Reach) -> None:
    """Wait until every agent has just beaten: it takes longest then until it beats again."""
    for name in (IDLE, BUSY):
        _, before = await reach.backend.registration(name)

        async def beaten(name: str = name, before: dict[str, int] = before) -> bool:
            return (await reach.backend.registration(name))[1] != before

        await wait_until(beaten, 6)


@pytest.mark.parametrize("how", ["restart", "flushall"])
async def test_agents_are_back_and_nothing_fails(start_server: StartServer, how: str) -> None:
    server = await asyncio.to_thread(start_server)
    free = asyncio.Event()
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(router(server.url))
        for agent in agents(free):
            await stack.enter_async_context(agent.running(server.url, grace=0))
        reach = await stack.enter_async_context(Reach.connect(server.url, agent_id="tester"))
        assert (await reach.request("capability:echo", 1)).ok
        await reach.send("capability:hang")
        await wait_until(lambda: agent.instances[0].free == 0)
        await next_beats(reach)

        await forget(server, how)
        began = time.monotonic()
        lag = await stack.enter_async_context(lagging())
        await stack.enter_async_context(
            router(server.url, "w2")
        )  # one that finds nobody, and cannot know that somebody was there
        asked: list[asyncio.Task[Receipt[Any]]] = []

        async def ask() -> None:
            while time.monotonic() - began < 3:
                sent = (
                    reach.request("capability:echo", 1, timeout=8),
                    reach.request(f"agent_id:{IDLE}", 1, timeout=8),
                    reach.request(f"agent_id:{IDLE}", 1, timeout=8, type="own.kind"),
                )
                asked.extend(map(asyncio.create_task, sent))
                await asyncio.sleep(0.05)

        asking = asyncio.create_task(ask())

        async def back() -> bool:
            snapshot = await reach.backend.snapshot()
            return snapshot.agents.keys() == {IDLE, BUSY}

        while not await back():
            await asyncio.sleep(0.01)
        took_s = time.monotonic() - began
        await asking
        codes = Counter((receipt.status.value, receipt.code) for receipt in await asyncio.gather(*asked))
        free.set()
    print(f"{how}: registered again after {took_s:.2f} s, {codes}")
    assert took_s < WITHIN_S + lag.allowed_s
    assert not [status for status, _ in codes if status == "failed"], codes
    assert codes["success", "ok"] >= sum(codes.values()) * 0.9
