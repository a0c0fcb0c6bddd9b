"""Blocking reads, their limits and their connections, for every read that a process lives by."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import redis.asyncio

from reach import Agent, Reach
from reach.backend import connection
from reach.backend.keys import KeySpace
from reach.backend.private_server import PrivateServer
from reach.backend.redis_backend import RedisBackend
from reach.errors import BackendUnavailable
from reach.testing import wait_until
from tests.bugs.served import served
from tests.bugs.town import echo_agent
from tests.faults.proxy import FaultProxy
from tests.integration.sdk.world import router
from tests.integration.spine import until
from tests.lag import lagging

KEYS = KeySpace("test")
STALLED_S = 0.2

#: name -> the read, by its block in ms
READS: dict[str, Callable[[RedisBackend, int], Awaitable[Any]]] = {
    "a router's doors": lambda backend, ms: backend.read_work("w", [0], 10, ms),
    "a registrar's door": lambda backend, ms: backend.read_control("w", ms),
    "an agent's bell": lambda backend, ms: backend.ring("a1", {0: {"high": "$", "normal": "$", "low": "$"}}, ms),
    "a caller's mailbox": lambda backend, ms: backend.read_mail("box", {0: "$"}, ms),
    "a watcher's changes": lambda backend, ms: backend.changes("0-0", ms),
    "the hop records": lambda backend, ms: backend.read_events(0, "$", ms),
}
#: How each of them is woken.
STREAMS = {
    "a router's doors": KEYS.ingress(0, "normal"),
    "a registrar's door": KEYS.control(),
    "an agent's bell": KEYS.inbox(0, "a1", "normal"),
    "a caller's mailbox": KEYS.mail(0, "box"),
    "a watcher's changes": KEYS.changes(),
    "the hop records": KEYS.events(0),
}
WAKING: dict[Any, Any] = {"e": "{}", "c": "{}", "n": "{}", "b": "[]", "v": "1", "k": "meta"}


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the log has, but for what it says of the machine: that it let nobody run for a while is no failure of ours."""
    messages = [record.getMessage() for record in caplog.records]
    return [message for message in messages if not message.startswith("event loop blocked")]


@pytest.fixture
async def proxy(server: PrivateServer) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(server.port) as running:
        yield running


@pytest.fixture
async def backend(proxy: FaultProxy) -> AsyncIterator[RedisBackend]:
    """Behind the proxy; its agent and its mailbox are there."""
    made = RedisBackend(proxy.url, env="test")
    await made.open()
    await made.open_inbox(0, "a1")
    await made.keep_mailbox("box", [0])
    await made.read_mail("box", {0: "0"}, 0)
    yield made
    await made.close()


async def blocked(raw: redis.asyncio.Redis, count: int) -> list[str]:
    """The connections that wait in a read, once there are so many."""

    async def waiting() -> list[str]:
        found = [row["id"] for row in await raw.client_list() if "b" in row["flags"]]
        return found if len(found) >= count else []

    return await until(waiting, f"{count} blocked reads")


async def all_blocked(
    backend: RedisBackend, raw: redis.asyncio.Redis, block_ms: int = 2_000
) -> tuple[list[asyncio.Task[str]], list[str]]:
    """Every read, waiting, and its connection."""
    for read in READS.values():
        await outcome(read(backend, 0))  # finds connections that are gone
    await raw.delete(KEYS.changes())
    for entry_id, _ in await backend.read_control("w", 0):
        await backend.finish_control(entry_id)
    reading = [asyncio.ensure_future(outcome(read(backend, block_ms))) for read in READS.values()]
    return reading, await blocked(raw, len(READS))


async def outcome(read: Awaitable[Any]) -> str:
    try:
        found = await read
    except BackendUnavailable as error:
        return error.code
    return "read" if found else "nothing"


# ---------------------------------------------------------------- B043


@pytest.mark.parametrize("options", ["", "?socket_timeout=0.05&retry_on_timeout=yes&health_check_interval=1"])
async def test_B043_a_read_that_waits_in_vain_is_no_failure(redis_url: str, options: str) -> None:
    """Also one that waits longer than a single command may block."""
    backend = RedisBackend(redis_url + options, env="test")
    await backend.open()
    await backend.open_inbox(0, "a1")
    found = await asyncio.gather(*(read(backend, 2_100) for read in READS.values()))
    assert not any(found), found
    await backend.close()


@pytest.mark.long
async def test_B043_a_minute_without_traffic_is_quiet(redis_url: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    async with (
        router(redis_url) as supervisor,
        echo_agent("echo").running(redis_url),
        Reach.connect(redis_url) as reach,
    ):
        assert await reach.ask("echo", 1) == 1
        end = asyncio.get_running_loop().time() + 60
        await wait_until(lambda: asyncio.get_running_loop().time() >= end, 75, "the end of the minute")
        assert {name: vitals.failures for name, vitals in supervisor.vitals.items() if vitals.failures} == {}
        assert await reach.ask("echo", 1) == 1
    assert said(caplog) == []


# ---------------------------------------------------------------- B045


@pytest.mark.parametrize("count", [2, 10, 100])
async def test_B045_however_few_connections_there_are_nothing_fails(
    redis_url: str, count: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    monkeypatch.setattr(connection, "MAX_COMMANDS", count)
    agent, runs = Agent("echo", concurrency=500), []

    @agent.capability("echo")
    async def echo(body: int) -> int:
        runs.append(body)
        return body

    async with served(redis_url, agent) as reach, lagging() as lag:
        receipts = await asyncio.gather(*(reach.request("echo", number) for number in range(500)))
    assert [receipt.output for receipt in receipts] == list(range(500))
    assert sorted(runs) == list(range(500))
    # Who is kept from his sockets for so long may well take a connection for dead, and says so.
    assert said(caplog) == [] or lag.worst_s > STALLED_S, lag


# ---------------------------------------------------------------- B048


@pytest.mark.parametrize("how", ["killed", "reset", "closed in the middle of a frame"])
async def test_B048_every_blocking_read_ends_with_its_connection_again_and_again(
    backend: RedisBackend, proxy: FaultProxy, raw: redis.asyncio.Redis, how: str
) -> None:
    for _ in range(5):
        reading, ids = await all_blocked(backend, raw)
        if how == "killed":
            for client_id in ids:
                await raw.client_kill_filter(_id=client_id)
        elif how == "reset":
            proxy.reset()
        else:
            proxy.cut("replies", 1)
            for stream in STREAMS.values():
                await raw.xadd(stream, WAKING)
        async with asyncio.timeout(2):
            assert await asyncio.gather(*reading) == ["backend.unavailable"] * len(READS)
        proxy.heal()
    reading, _ = await all_blocked(backend, raw)
    for stream in STREAMS.values():
        await raw.xadd(stream, WAKING)
    async with asyncio.timeout(2):
        assert await asyncio.gather(*reading) == ["read"] * len(READS)


# ---------------------------------------------------------------- B050


async def test_B050_a_read_over_a_silent_connection_ends_and_the_connection_is_not_used_again(
    backend: RedisBackend, proxy: FaultProxy, raw: redis.asyncio.Redis
) -> None:
    block_ms = 500
    reading, ids = await all_blocked(backend, raw, block_ms)
    proxy.half_open(*proxy.links)
    for stream in STREAMS.values():
        await raw.xadd(stream, WAKING)  # what the server says now is stuck on the way
    async with asyncio.timeout(block_ms / 1000 + 5):
        assert await asyncio.gather(*reading) == ["backend.unavailable"] * len(READS)
    proxy.heal()
    # By new connections: what they say is what is asked for now, and not what was stuck.
    *_, last = await backend.read_mail("box", {0: "0"}, 0)
    assert await asyncio.gather(*(backend.read_mail("box", {0: last.id}, 50) for _ in READS)) == [[]] * len(READS)

    async def gone() -> bool:
        return not {row["id"] for row in await raw.client_list()} & set(ids)

    await until(gone, "the end of the connections that were silent")
