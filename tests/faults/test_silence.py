"""One backend's connections: dead ones are left at once, those of a server that is only slow are kept."""

import asyncio
import os
import random
import signal
import socket
from collections import Counter
from collections.abc import AsyncIterator

import pytest
import redis.asyncio

from reach.backend.connection import CONNECT_LIMIT_S, MAX_COMMANDS, Link
from reach.backend.private_server import PrivateServer
from reach.errors import BackendUnavailable
from tests.faults.proxy import FaultProxy
from tests.faults.wired import kill_connections
from tests.servers import StartServer

NOTHING = "reach:{test.0}:again"
#: a dead connection is known as such after so long: the answer is overdue, the server is asked, the answer is still behind
NOTICED_S = 1.5
BIG = b"x" * 600_000
#: a chunk of 64 KiB each 150 ms and way: `BIG` takes 1.5 s
SLOW_MS = 150


@pytest.fixture
async def proxy(server: PrivateServer) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(server.port) as made:
        yield made


@pytest.fixture
async def link(proxy: FaultProxy) -> AsyncIterator[Link]:
    made = Link(proxy.url)
    yield made
    await made.close()


async def all_open(link: Link) -> None:
    """As many connections as there may be, idle."""
    await asyncio.gather(*(link.call("PING") for _ in range(10 * MAX_COMMANDS)))


async def test_one_dead_connection_speaks_for_all_of_its_age(link: Link, proxy: FaultProxy) -> None:
    for _ in range(2):
        await all_open(link)
        proxy.half_open(*proxy.links)
        async with asyncio.timeout(NOTICED_S):
            with pytest.raises(BackendUnavailable, match="dead"):
                await link.call("PING")
            assert await link.call("ECHO", b"x") == b"x"


async def test_every_caller_on_a_dead_connection_hears_at_once(link: Link, proxy: FaultProxy) -> None:
    await all_open(link)
    proxy.swallow_replies(*proxy.links)
    async with asyncio.timeout(NOTICED_S):
        said = await asyncio.gather(*(link.call("PING") for _ in range(MAX_COMMANDS)), return_exceptions=True)
        assert {type(one) for one in said} == {BackendUnavailable}
        assert await link.call("ECHO", b"x") == b"x"


@pytest.mark.parametrize("block_ms", [1, 1_000])
async def test_a_read_whose_connection_is_dead_ends_soon_after_its_time(
    link: Link, proxy: FaultProxy, block_ms: int
) -> None:
    """BUGS: aioredis#1174."""
    reading = asyncio.create_task(link.read("XREAD", "BLOCK", block_ms, "STREAMS", NOTHING, "$", block_ms=block_ms))
    while not proxy.links:
        await asyncio.sleep(0)
    proxy.half_open(*proxy.links)
    with pytest.raises(BackendUnavailable, match="dead"):
        async with asyncio.timeout(block_ms / 1000 + NOTICED_S):
            await reading


async def test_a_read_is_left_when_a_command_finds_its_connection_dead(link: Link, proxy: FaultProxy) -> None:
    """A read that may still wait tells nothing by itself."""
    await link.call("PING")
    reading = asyncio.create_task(link.read("XREAD", "BLOCK", 2_000, "STREAMS", NOTHING, "$", block_ms=2_000))
    while len(proxy.links) < 2:
        await asyncio.sleep(0)
    proxy.half_open(*proxy.links)
    async with asyncio.timeout(NOTICED_S):
        with pytest.raises(BackendUnavailable, match="dead"):
            await link.call("PING")
        with pytest.raises(BackendUnavailable, match="dead"):
            await reading


async def test_a_read_that_waits_its_time_is_nothing_unusual(link: Link, proxy: FaultProxy) -> None:
    """BUGS: redis/redis-py#3138."""
    for _ in range(2):
        assert await link.read("XREAD", "BLOCK", 1_000, "STREAMS", NOTHING, "$", block_ms=1_000) is None
    assert proxy.made == 1


async def test_a_server_that_stands_still_is_waited_for(start_server: StartServer) -> None:
    """Who is only slow answers those who wait; whoever left would come again with the same, and so would everybody."""
    server = start_server()
    async with FaultProxy(server.port) as proxy:
        link = Link(proxy.url)
        await all_open(link)
        before = tuple(proxy.links)
        os.kill(server.pid, signal.SIGSTOP)
        asking = [asyncio.create_task(link.call("ECHO", b"%d" % n)) for n in range(MAX_COMMANDS)]
        try:
            async with asyncio.timeout(10):
                while proxy.made < len(before) + 2:  # it was asked twice by connections of their own
                    await asyncio.sleep(0.01)
        finally:
            os.kill(server.pid, signal.SIGCONT)
        assert await asyncio.gather(*asking) == [b"%d" % n for n in range(MAX_COMMANDS)]
        assert set(before) <= set(proxy.links)
        await link.close()


async def test_a_long_answer_on_a_slow_line_is_heard_to_its_end(link: Link, proxy: FaultProxy) -> None:
    (big,) = await link.batch([["EVAL", f"return string.rep('x', {len(BIG)})", 0]])
    assert big == BIG
    proxy.delay(SLOW_MS)
    assert await link.call("EVAL", f"return string.rep('x', {len(BIG)})", 0) == BIG
    assert proxy.links[0].number == 0


async def test_a_long_command_on_a_slow_line_has_the_time_that_it_needs(link: Link, proxy: FaultProxy) -> None:
    await link.call("PING")
    proxy.delay(SLOW_MS)
    assert await link.call("ECHO", BIG) == BIG
    assert proxy.links[0].number == 0


async def test_what_was_given_up_does_not_arrive_later() -> None:
    """A farewell would come behind the command, which the system would go on sending; a reset comes instead of both."""
    ends: list[type[BaseException] | bytes] = []
    ended = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await reader.read(100):
                pass
            ends.append(b"")
        except OSError as error:
            ends.append(type(error))
        writer.close()
        ended.set()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0, family=socket.AF_INET)
    link = Link(f"redis://127.0.0.1:{listener.sockets[0].getsockname()[1]}")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await link.call("PING")
    try:
        async with asyncio.timeout(2):
            await ended.wait()
    finally:
        await link.close()
        listener.close()
        await listener.wait_closed()
    assert ends == [ConnectionResetError]


async def test_a_deaf_network_is_found_well_again_within_a_second(link: Link, proxy: FaultProxy) -> None:
    """As long as nobody is answered nothing is known; who asks then is told as soon as somebody is."""
    await all_open(link)
    proxy.swallow_requests()
    asking = asyncio.create_task(link.call("PING"))
    async with asyncio.timeout(10):
        while proxy.made < MAX_COMMANDS + 2:
            await asyncio.sleep(0.01)
    assert not asking.done()
    proxy.heal()
    async with asyncio.timeout(NOTICED_S + 0.7):  # one question may have been asked just before
        with pytest.raises(BackendUnavailable, match="dead"):
            await asking
        assert await link.call("ECHO", b"x") == b"x"


async def test_a_host_that_takes_no_connection_is_left_before_its_next_try_is_far_off() -> None:
    """Its SYNs are dropped. The system sends them again after 1, 3, 7 s: who waits for that is late by as much when the host is back."""
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        link = Link(f"redis://127.0.0.1:{deaf.getsockname()[1]}")
        # What the system keeps for the listener is full after one or two; nobody accepts.
        full = [asyncio.create_task(asyncio.open_connection(*deaf.getsockname())) for _ in range(4)]
        try:
            async with asyncio.timeout(5):
                while not any(one.done() for one in full):
                    await asyncio.sleep(0.01)
                with pytest.raises(BackendUnavailable):
                    async with asyncio.timeout(CONNECT_LIMIT_S + 0.5):
                        await link.call("PING")
        finally:
            await link.close()
            for one in full:
                one.cancel()
            for ended in await asyncio.gather(*full, return_exceptions=True):
                if isinstance(ended, tuple):
                    ended[1].close()


async def test_who_is_cancelled_anywhere_under_faults_leaves_no_reply_to_another(
    link: Link, proxy: FaultProxy, raw: redis.asyncio.Redis
) -> None:
    """BUGS: redis/redis-py#2624, while connections are made, are late, are cut and are killed."""
    rng = random.Random(11)
    heard = Counter[str]()

    async def ask(number: int) -> None:
        texts = [b"%d.%d" % (number, at) for at in range(3)]
        try:
            async with asyncio.timeout(rng.choice([None, rng.random() * 0.1])):
                assert await link.batch([["ECHO", text] for text in texts]) == texts
            heard["answer"] += 1
        except TimeoutError:
            heard["cancelled"] += 1
        except BackendUnavailable:
            heard["lost"] += 1

    for turn in range(40):
        if turn % 4 == 1:
            proxy.delay(rng.randrange(1, 10))
        elif turn % 4 == 2:
            for one in proxy.links:
                proxy.cut(rng.choice(["replies", "requests"]), rng.randrange(1, 60), one)
        elif turn % 4 == 3:
            proxy.heal()
            await kill_connections(raw)
        await asyncio.gather(*(ask(100 * turn + n) for n in range(50)))
    proxy.heal()
    assert min(heard["answer"], heard["cancelled"], heard["lost"]) > 20, heard
    assert await asyncio.gather(*(link.call("ECHO", b"%d" % n) for n in range(200))) == [b"%d" % n for n in range(200)]


async def test_the_probes_leave_no_connection(link: Link, proxy: FaultProxy, raw: redis.asyncio.Redis) -> None:
    await link.call("PING")
    proxy.swallow_replies(*proxy.links)
    with pytest.raises(BackendUnavailable):
        await link.call("PING")
    async with asyncio.timeout(2):
        while len(await raw.client_list()) > 1:
            await asyncio.sleep(0.01)
