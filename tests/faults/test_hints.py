"""The connection that hears hints: it comes back by itself, is left when it is dead, and holds up nobody."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import redis.asyncio

from reach.backend import open_backend
from reach.backend.connection import Link
from reach.backend.private_server import PrivateServer
from reach.errors import BackendDenied, BackendUnavailable
from reach.testing import wait_until
from tests.faults.proxy import FaultProxy
from tests.servers import StartServer

ONE, TWO = "reach:{test.0}:hint:a1", "reach:{test.1}:hint:a1"
BOTH = (ONE, TWO)
#: the time of the wait, an answer that is overdue, the question, and the answer that is still behind
NOTICED_S = 1.5


@pytest.fixture
async def proxy(server: PrivateServer) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(server.port) as made:
        yield made


@pytest.fixture
async def link(proxy: FaultProxy) -> AsyncIterator[Link]:
    made = Link(proxy.url)
    yield made
    await made.close()


async def say(raw: redis.asyncio.Redis, channel: str, *data: bytes) -> None:
    for one in data:
        assert await raw.execute_command("SPUBLISH", channel, one)  # type: ignore[no-untyped-call]


async def test_all_channels_are_heard_by_one_connection(
    link: Link, proxy: FaultProxy, raw: redis.asyncio.Redis
) -> None:
    assert await link.hear(BOTH, 0) == []
    await say(raw, ONE, b"x", b"y")
    await say(raw, TWO, b"z")
    heard: list[tuple[str, bytes]] = []
    while len(heard) < 3:
        heard += await link.hear(BOTH, 1_000)
    assert heard == [(ONE, b"x"), (ONE, b"y"), (TWO, b"z")]
    for _ in range(3):
        assert await link.hear(BOTH, 1) == []
    assert proxy.made == 1


async def test_a_wait_in_vain_is_no_failure(link: Link, proxy: FaultProxy) -> None:
    """Also where it is longer than what counts as silence."""
    for _ in range(2):
        assert await link.hear(BOTH, 1_000) == []
    assert proxy.made == 1


async def test_it_comes_back_after_its_connection_was_closed(
    link: Link, proxy: FaultProxy, raw: redis.asyncio.Redis
) -> None:
    await link.hear(BOTH, 0)
    waiting = asyncio.create_task(link.hear(BOTH, 60_000))
    await asyncio.sleep(0)
    assert await raw.client_kill_filter(_type="pubsub") == 1
    with pytest.raises(BackendUnavailable):
        await waiting
    assert await link.hear(BOTH, 0) == []
    await say(raw, TWO, b"x")
    assert await link.hear(BOTH, 60_000) == [(TWO, b"x")]


@pytest.mark.parametrize("how", ["half_open", "swallow_replies"])
async def test_a_dead_connection_is_left_and_the_next_call_hears(
    link: Link, proxy: FaultProxy, raw: redis.asyncio.Redis, how: str
) -> None:
    await link.hear(BOTH, 0)
    getattr(proxy, how)(*proxy.links)
    async with asyncio.timeout(NOTICED_S):
        with pytest.raises(BackendUnavailable, match="dead"):
            await link.hear(BOTH, 200)
        assert await link.hear(BOTH, 0) == []
    await say(raw, ONE, b"x")
    assert await link.hear(BOTH, 60_000) == [(ONE, b"x")]


async def _subscribed(raw: redis.asyncio.Redis) -> bool:
    return bool(await raw.execute_command("PUBSUB", "SHARDNUMSUB", ONE) == [ONE.encode(), 1])  # type: ignore[no-untyped-call]


async def test_others_are_not_held_up_while_it_is_silent(link: Link, proxy: FaultProxy) -> None:
    await link.hear(BOTH, 0)
    proxy.half_open(*proxy.links)
    waiting = asyncio.create_task(link.hear(BOTH, 60_000))
    async with asyncio.timeout(NOTICED_S):
        assert await link.call("ECHO", b"x") == b"x"
    waiting.cancel()
    await asyncio.wait([waiting])


async def test_a_cancelled_listener_leaves_no_connection_and_hears_again(
    link: Link, proxy: FaultProxy, raw: redis.asyncio.Redis
) -> None:
    await link.hear(BOTH, 0)
    waiting = asyncio.create_task(link.hear(BOTH, 60_000))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    await link.hear(BOTH, 0)
    await wait_until(lambda: _subscribed(raw), what="one subscription")


async def test_one_that_is_closed_says_so_and_does_not_connect(link: Link, proxy: FaultProxy) -> None:
    await link.hear(BOTH, 0)
    waiting = asyncio.create_task(link.hear(BOTH, 60_000))
    await asyncio.sleep(0)
    await link.close()
    for listening in (waiting, link.hear(BOTH, 60_000)):
        with pytest.raises(BackendUnavailable):
            await listening
    assert proxy.made == 1


async def test_a_flood_is_heard_in_parts(link: Link, raw: redis.asyncio.Redis) -> None:
    await link.hear((ONE,), 0)
    await raw.eval(f"#!lua\nfor i = 1, 2500 do redis.call('SPUBLISH', '{ONE}', i) end", 1, ONE)
    parts: list[int] = []
    while sum(parts) < 2_500:
        parts.append(len(await link.hear((ONE,), 60_000)))
        assert parts[-1] <= 1_000


async def test_who_may_not_listen_is_told_and_who_may_not_speak_cancels_all_the_same(
    start_server: StartServer,
) -> None:
    server = start_server()
    async with redis.asyncio.Redis.from_url(server.url) as raw:
        await raw.execute_command("ACL", "SETUSER", "deaf", "reset", "on", ">pw", "~reach:*", "+@all")  # type: ignore[no-untyped-call]
    backend = open_backend(server.url.replace("redis://", "redis://deaf:pw@"), env="test")
    try:
        await backend.open()
        with pytest.raises(BackendDenied):
            await backend.hear("a1", 0)
        msg_id = "00000000-0000-4000-8000-000000000001"
        assert (await backend.cancel(0, msg_id, "s", 1, 0)).what == "tombstone"
    finally:
        await backend.close()
