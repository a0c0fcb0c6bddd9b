"""Client and agents on real servers: the whole way, and what an outage does to it."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import msgspec
import pytest
import redis.asyncio

from reach import Agent, BackendUnavailable, Context, Reach, Receipt, Status
from reach.backend.keys import KeySpace
from reach.backend.private_server import PrivateServer
from reach.testing import wait_until
from tests.integration.sdk.world import router
from tests.lag import in_time
from tests.servers import StartServer

SLACK_S = 0.25  # what the protocol leaves a caller, beside its own total


class World:
    """A router, two agents and a client."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.runs: list[str] = []
        self.go = asyncio.Event()
        self.cancelled = 0
        self.agents = [self._agent(), self._agent()]
        self.reach: Reach

    def _agent(self) -> Agent:
        agent = Agent("echo-{instance}", concurrency=32)

        @agent.capability("echo")
        async def echo(body: Any, ctx: Context) -> Any:
            self.runs.append(ctx.msg_id)
            return body

        @agent.capability("hang")
        async def hang(ctx: Context) -> int:
            try:
                await self.go.wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
            return ctx.attempt

        @agent.capability("tell")
        async def tell(body: list[Any], ctx: Context) -> int:
            for item in body:
                await ctx.progress(item)
            return len(body)

        @agent.capability("sleep")
        def sleep(body: float) -> str:
            time.sleep(body)
            return "slept"

        return agent


@pytest.fixture
async def world(redis_url: str) -> AsyncIterator[World]:
    async with living(redis_url) as made:
        yield made


class living:  # noqa: N801  reads as a statement
    def __init__(self, url: str) -> None:
        self._url = url
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> World:
        made = World(self._url)
        await self._stack.enter_async_context(router(self._url))
        for agent in made.agents:
            await self._stack.enter_async_context(agent.running(self._url, grace=0))
        made.reach = await self._stack.enter_async_context(Reach.connect(self._url, agent_id="tester"))
        return made

    async def __aexit__(self, *exc_info: object) -> None:
        await self._stack.aclose()


async def soon(reach: Reach, within_s: float = 15.0) -> None:
    """Wait until a request is answered again; each one waits half a second."""
    began = time.monotonic()
    receipt: Receipt[Any] | None = None
    while time.monotonic() - began < within_s:
        receipt = await reach.request("capability:echo", {"x": 1}, timeout=0.5)
        if receipt.ok:
            return
    raise AssertionError(f"no answer within {within_s} s; the last one was {receipt}")


# ---------------------------------------------------------------- the whole way


async def test_the_whole_way(world: World) -> None:
    reach = world.reach
    assert await reach.ask("echo", {"x": [1, None, "ü"]}) == {"x": [1, None, "ü"]}
    assert await reach.ask("sleep", 0.05, returns=str) == "slept"
    receipts = await reach.request("echo", 1, scope="all")
    assert [receipt.code for receipt in receipts] == ["ok", "ok"]
    handle = await reach.send("tell", ["a", "b"])
    assert [step.data async for step in handle.progress()] == ["a", "b"]
    receipt = await handle.receipt(2, returns=int)
    assert (receipt.output, receipt.attempts, receipt.durability) == (2, 1, "memory")
    assert (await handle.status()).state == "ended"
    assert reach.outstanding == 0


async def test_a_body_comes_back_byte_for_byte(world: World) -> None:
    odd = b'{ "a":1.0,\t"b" : 1e2, "c": 9223372036854775808, "d":"\\u00e9" }'
    got = await world.reach.ask("echo", msgspec.Raw(odd), returns=msgspec.Raw)
    assert msgspec.json.decode(bytes(got)) == msgspec.json.decode(odd)


async def test_the_same_key_runs_once(world: World) -> None:
    receipts = await asyncio.gather(*(world.reach.request("echo", 1, key="k") for _ in range(4)))
    assert {receipt.code for receipt in receipts} == {"ok"}
    assert len(set(world.runs)) == len(world.runs) == 1
    again = await world.reach.request("echo", 1, key="k")
    assert again.stored
    assert (await world.reach.request("echo", 2, key="k")).code == "envelope.id_conflict"


async def test_many_at_once(world: World) -> None:
    receipts = await asyncio.gather(*(world.reach.request("capability:echo", n) for n in range(500)))
    assert [receipt.output for receipt in receipts] == list(range(500))
    assert len(world.runs) == 500
    assert {receipt.target_agent for receipt in receipts} == {
        agent.instances[0].registration.agent_id for agent in world.agents
    }


async def test_more_than_one_partition(redis_url: str, raw: redis.asyncio.Redis) -> None:
    await raw.hset(KeySpace("dev").meta(), "partitions", "4")
    async with living(redis_url) as world:
        receipts = await asyncio.gather(*(world.reach.request("capability:echo", n) for n in range(100)))
        assert all(receipt.ok for receipt in receipts)
        handle = await world.reach.send("hang", timeout=1)
        assert (await handle.receipt()).code == "timeout.total"


async def test_a_caller_ends_at_its_total_and_a_cancelled_handler_is_stopped(world: World) -> None:
    began = time.monotonic()
    async with in_time(1 + SLACK_S):
        receipt = await world.reach.request("capability:hang", timeout=1)
    assert time.monotonic() - began >= 1
    assert receipt.code == "timeout.total"
    await wait_until(lambda: world.cancelled == 1, what="the end of the handler")
    handle = await world.reach.send("capability:hang")
    await wait_until(lambda: sum(len(a.instances[0].runs) for a in world.agents) == 1, what="the start of the handler")
    assert await handle.cancel()
    assert (await handle.receipt(1)).code == "cancelled"
    await wait_until(lambda: world.cancelled == 2, 4, "the hint, long before the next renewal")


# ---------------------------------------------------------------- outages


async def test_after_flushall_everything_is_back_and_every_caller_ends(world: World, raw: redis.asyncio.Redis) -> None:
    waiting = [asyncio.create_task(world.reach.request("capability:hang", timeout=3)) for _ in range(10)]
    await wait_until(lambda: sum(len(a.instances[0].runs) for a in world.agents) == 10)
    await raw.flushall()
    async with in_time(8):
        await soon(world.reach)
        receipts: list[Receipt[Any]] = await asyncio.gather(*waiting)
    assert {receipt.code for receipt in receipts} == {"timeout.total"}
    assert world.reach.outstanding == 0


@pytest.mark.parametrize("aof", [True, False], ids=["aof", "memory"])
async def test_a_killed_redis_comes_back(start_server: StartServer, aof: bool) -> None:
    server: PrivateServer = start_server(aof=aof)
    async with living(server.url) as world:
        handle = await world.reach.send("capability:hang", timeout=4)
        await wait_until(lambda: sum(len(a.instances[0].runs) for a in world.agents) == 1)
        waiting = asyncio.create_task(world.reach.request("capability:hang", timeout=4))
        began = time.monotonic()
        await asyncio.to_thread(server.kill)
        during = await world.reach.request("capability:echo", 1, timeout=0.5)
        assert (during.status, during.code) == (Status.RETRYABLE, "timeout.total")
        with pytest.raises(BackendUnavailable):
            await world.reach.send("capability:echo", 1, timeout=0.3)
        await asyncio.to_thread(server.restart)
        await soon(world.reach)
        world.go.set()
        receipt = await handle.receipt()
        other = await waiting
        assert time.monotonic() - began < 4 + SLACK_S + 8
        assert receipt.code == "ok" if aof else receipt.code in ("ok", "timeout.total")
        assert other.code in ("ok", "timeout.total")


async def test_keys_of_another_type_heal(world: World, raw: redis.asyncio.Redis) -> None:
    keys = KeySpace("dev")
    await raw.delete(keys.mail(0, world.reach.mailbox_id))
    await raw.set(keys.mail(0, world.reach.mailbox_id), "x")
    for agent in world.agents:
        inbox = keys.inbox(0, agent.instances[0].registration.agent_id, "normal")
        await raw.delete(inbox)
        await raw.set(inbox, "x")
    await soon(world.reach)
    await raw.delete(keys.ingress(0, "normal"))
    await raw.set(keys.ingress(0, "normal"), "x")
    assert (await world.reach.request("capability:echo", 1, timeout=6)).ok


async def test_without_a_server_an_agent_and_a_client_wait_no_longer_than_they_must(start_server: StartServer) -> None:
    server: PrivateServer = start_server()
    async with living(server.url) as world:
        await asyncio.to_thread(server.kill)
        async with in_time(1 + SLACK_S):
            receipts = await asyncio.gather(*(world.reach.request("capability:echo", n, timeout=1) for n in range(50)))
        assert {receipt.code for receipt in receipts} == {"timeout.total"}
        assert world.reach.outstanding == 0


async def test_a_frozen_server_holds_up_no_caller(start_server: StartServer) -> None:
    server: PrivateServer = start_server()
    async with living(server.url) as world:
        handle = await world.reach.send("capability:hang", timeout=20)
        await wait_until(lambda: sum(len(a.instances[0].runs) for a in world.agents) == 1)
        os.kill(server.pid, signal.SIGSTOP)
        try:
            async with in_time(1 + SLACK_S):
                receipts = await asyncio.gather(
                    *(world.reach.request("capability:echo", n, timeout=1) for n in range(20))
                )
        finally:
            os.kill(server.pid, signal.SIGCONT)
        assert {receipt.code for receipt in receipts} == {"timeout.total"}
        await soon(world.reach)
        world.go.set()
        receipt = await handle.receipt(5)
        assert (receipt.code, receipt.output) == ("ok", 1)  # nobody took it away meanwhile


async def test_an_unreachable_redis_is_told_by_connect() -> None:
    with pytest.raises(BackendUnavailable):
        await Reach.connect("redis://127.0.0.1:1")
