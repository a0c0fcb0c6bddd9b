"""A server that is full, one that throws keys away, and payloads at the edge of what is taken."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
import redis.asyncio

from reach import Agent, Context, Reject
from reach.backend.keys import KeySpace
from reach.backend.redis_backend import RedisBackend
from reach.envelope.codec import DEFAULT_MAX_BYTES
from reach.log import Event
from reach.sdk.outcome import MAX_OUTPUT_BYTES
from reach.testing import wait_until
from tests.bugs.served import served
from tests.integration.spine import until
from tests.servers import StartServer

KEYS = KeySpace("dev")


@asynccontextmanager
async def full(admin: redis.asyncio.Redis) -> AsyncIterator[None]:
    """The server has no room for anything more."""
    await admin.config_set("maxmemory", "1mb")
    try:
        yield
    finally:
        await admin.config_set("maxmemory", "0")


async def test_B109_a_full_server_loses_nothing_that_was_accepted(start_server: StartServer) -> None:
    server = start_server()
    agent, go, running = Agent("slow", concurrency=64), asyncio.Event(), []
    failing = [Agent(f"bad-{number}") for number in range(5)]  # to each so few that no circuit opens

    @agent.capability("slow")
    async def slow(body: int, ctx: Context) -> int:
        running.append(body)
        await go.wait()
        await ctx.alive()
        return body

    async def bad() -> None:
        raise ValueError("never")

    for one in failing:
        one.capability("bad")(bad)

    async with served(server.url, agent, *failing) as reach, redis.asyncio.Redis.from_url(server.url) as admin:
        held = [await reach.send("slow", number) for number in range(10)]
        await wait_until(lambda: len(running) == 10)
        # These are anywhere between the ingress and a handler, or on the way to the dead letters, when there is no room any more.
        moving = [await reach.send("slow", number) for number in range(10, 30)]
        dying = [await reach.send(f"bad-{number % 5}", max_attempts=1) for number in range(10)]
        async with full(admin):
            refused = await asyncio.gather(*(reach.request("slow", -1) for _ in range(20)))
            assert {(receipt.status, receipt.code) for receipt in refused} == {("retryable", "overloaded")}
            go.set()
            receipts = [await handle.receipt(5) for handle in held]  # what runs ends while there is no room
            assert [receipt.output for receipt in receipts] == list(range(10))
        receipts = [await handle.receipt(20) for handle in moving]
        assert [receipt.output for receipt in receipts] == list(range(10, 30))
        assert sorted(running) == list(range(30))  # each ran once, what was refused never
        for receipt in [await handle.receipt(20) for handle in dying]:
            assert (receipt.code, receipt.attempts) == ("handler.error", 1)
            assert receipt.details["dead_letter"]
        assert await admin.xlen(KEYS.dead(0)) == 10
        for key, group in KEYS.groups(0, "slow").items():
            assert (await admin.xpending(key, group))["pending"] == 0
        assert (await reach.request("slow", 1)).ok


async def test_B109_what_may_be_written_can_be_read_by_its_caller(redis_url: str) -> None:
    agent = Agent("big")

    @agent.capability("output")
    async def output(body: int) -> str:
        return "x" * (body - 2)

    @agent.capability("details")
    async def details(body: int) -> None:
        many: dict[str, Any] = {f"n{number}": "x" * body for number in range(200)}
        raise Reject("big", "x" * body, **many, small=1)

    @agent.capability("tell")
    async def tell(body: int, ctx: Context) -> None:
        await ctx.progress("x" * body)

    async with served(redis_url, agent) as reach:
        assert await reach.ask("output", MAX_OUTPUT_BYTES) == "x" * (MAX_OUTPUT_BYTES - 2)
        receipt = await reach.request("output", MAX_OUTPUT_BYTES + 1)
        assert (receipt.status, receipt.code) == ("failed", "handler.error")
        receipt = await reach.request("details", 100_000)
        assert (receipt.status, receipt.code, receipt.details["reject"]) == ("failed", "handler.rejected", "big")
        receipt = await reach.request("tell", DEFAULT_MAX_BYTES, max_attempts=1)
        assert (receipt.code, receipt.details["cause"]) == ("handler.error", "payload.invalid")
        receipt = await reach.request("output", "x" * DEFAULT_MAX_BYTES)
        assert (receipt.status, receipt.code) == ("failed", "envelope.too_large")
        assert await reach.ask("output", 3) == "x"


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl", "noeviction"])
async def test_B111_an_evicting_policy_is_warned_of_at_the_start(
    start_server: StartServer, policy: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = start_server(extra_args=("--maxmemory-policy", policy))
    backend = RedisBackend(server.url, env="test")
    await backend.open()
    await backend.close()
    warned = [record.__dict__.get("maxmemory_policy") for record in caplog.records]
    assert warned == ([] if policy == "noeviction" else [policy])


@pytest.mark.leaves("filler:.*", why="it fills the server")
async def test_B111_a_policy_that_begins_to_evict_and_its_losses_are_told(
    start_server: StartServer, caplog: pytest.LogCaptureFixture
) -> None:
    server = start_server()
    backend = RedisBackend(server.url, env="test")
    await backend.open()

    async def a_minute_later() -> list[str]:
        """The next time that the server is asked."""
        caplog.clear()
        backend._trimmed_at_ms = 0
        await backend.record(0, b"[]")
        return [str(cast("Event", record.msg).event) for record in caplog.records]

    assert await a_minute_later() == []
    async with redis.asyncio.Redis.from_url(server.url) as admin:
        await admin.config_set("maxmemory-policy", "volatile-ttl")
        assert await a_minute_later() == ["evicting policy"]
        assert await a_minute_later() == []
        used = int((await admin.info("memory"))["used_memory"])
        await admin.config_set("maxmemory", str(used + (1 << 20)))
        for number in range(40):
            await admin.set(f"filler:{number}", b"x" * 100_000, ex=1_000 + number)

        async def evicted() -> Any:
            return (await admin.info("stats"))["evicted_keys"]

        lost = await until(evicted, "an eviction")
        assert await a_minute_later() == ["keys evicted"]
        assert caplog.records[0].__dict__["count"] >= lost
        assert await a_minute_later() == []
        await admin.config_set("maxmemory-policy", "noeviction")
        assert await a_minute_later() == []
        await admin.config_set("maxmemory-policy", "allkeys-lru")
        assert await a_minute_later() == ["evicting policy"]
        await admin.config_set("maxmemory", "0")
    await backend.close()
