"""A server that is killed, stands still, is full, loads, or is made a replica, under load: two seconds after that is over all goes on."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import redis.asyncio
from redis.exceptions import BusyLoadingError

from reach import Overloaded, Status
from reach.backend.keys import LANES, KeySpace
from reach.testing import wait_until
from tests.faults.wired import HELD, LOAD_EVERY_S, Note, Wired
from tests.servers import StartServer

KEYS = KeySpace("dev")
#: so many requests are sent while a fault lasts: more than a second
LASTS = 40


@asynccontextmanager
async def admin_of(url: str) -> AsyncIterator[redis.asyncio.Redis]:
    async with redis.asyncio.Redis.from_url(url) as admin:
        yield admin


async def test_a_killed_server_with_a_file_comes_back_and_nobody_notices(
    start_server: StartServer, record_property: Note
) -> None:
    server = start_server(aof=True)
    async with Wired(server.port, server.url) as wired:
        async with wired.holding() as held, wired.load():
            await asyncio.to_thread(server.kill)
            await wired.asks(LASTS)
            await asyncio.to_thread(server.restart)
            record_property("recovery", ("killed, file kept", "server", await wired.recovers(time.monotonic())))
        assert [one.output for one in held] == [1] * HELD
        wired.check()


async def test_a_killed_server_without_a_file_comes_back_empty_and_serves_at_once(
    start_server: StartServer, record_property: Note
) -> None:
    """What it had accepted is gone, and ends by its total. Who was told of a success was told the truth."""
    server = start_server()
    async with Wired(server.port, server.url) as wired:
        wired.patience_s = 4.0
        async with wired.holding(total_s=4.0), wired.load():
            await asyncio.to_thread(server.kill)
            await wired.asks(LASTS)
            await asyncio.to_thread(server.restart)
            restarted = len(wired.asked)
            record_property("recovery", ("killed, empty", "server", await wired.serves(time.monotonic())))
            await wired.asks(LASTS)
        assert {one.code for one in wired.asked[restarted:]} == {"ok"}
        wired.check({"ok", "timeout.total"})


@pytest.mark.long
async def test_a_file_that_lost_its_tail(start_server: StartServer, record_property: Note) -> None:
    """A loss of power: what was written in the last second is gone, also of what had ended."""
    server = start_server(aof=True)
    async with Wired(server.port, server.url) as wired:
        wired.patience_s = 4.0
        async with wired.load():
            kept = {path: path.read_bytes() for path in server.directory.rglob("*.aof*")}
            await wired.asks(LASTS // 2)  # the tail
            await asyncio.to_thread(server.kill)
            for path, data in kept.items():
                path.write_bytes(data)
            await asyncio.to_thread(server.restart)
            restarted = len(wired.asked)
            record_property("recovery", ("killed, tail lost", "server", await wired.serves(time.monotonic())))
            await wired.asks(LASTS)
        assert {one.code for one in wired.asked[restarted:]} == {"ok"}
        # What has ended and is not known to have ended runs again: the class that is on every receipt of it says so.
        wired.check({"ok", "timeout.total"}, forgets=True)
        assert {one.ended.durability for one in wired.asked} == {"everysec"}


@pytest.mark.parametrize(
    ("lasts", "every_s", "codes"),
    [
        (70, LOAD_EVERY_S, {"ok"}),
        pytest.param(100, 0.2, {"ok", "timeout.total"}, marks=[pytest.mark.long, pytest.mark.timeout(120)]),
    ],
    ids=["2s", "20s"],
)
async def test_a_server_that_stands_still(
    start_server: StartServer, lasts: int, every_s: float, codes: set[str], record_property: Note
) -> None:
    """After 20 s the totals of those who asked first are over, and so are the leases: nobody could renew, and nobody may take over."""
    server = start_server()
    async with Wired(server.port, server.url) as wired:
        async with wired.holding() as held, wired.load(every_s):
            os.kill(server.pid, signal.SIGSTOP)
            try:
                await wired.asks(lasts)
            finally:
                os.kill(server.pid, signal.SIGCONT)
            took_s = await wired.recovers(time.monotonic())
            record_property("recovery", (f"frozen for {lasts * every_s:.0f} s", "server", took_s))
        assert [one.output for one in held] == [1] * HELD
        wired.check(codes)


async def test_a_full_server_takes_nothing_and_loses_nothing(start_server: StartServer, record_property: Note) -> None:
    server = start_server()
    async with Wired(server.port, server.url) as wired, admin_of(server.url) as admin:
        async with wired.holding() as held:
            await admin.config_set("maxmemory", "1mb")
            before = {key async for key in admin.scan_iter()}
            refused = [await wired.request("capability:echo", 8.0, n) for n in range(10)]
            assert {(one.code, one.ended.status, one.ended.attempts) for one in refused} == {
                ("overloaded", Status.RETRYABLE, 0)
            }
            with pytest.raises(Overloaded) as told:
                await wired.reach.send("capability:echo", 1)
            assert told.value.retryable
            for lane in LANES:
                assert await admin.xlen(KEYS.ingress(0, lane)) == 0
            assert {key async for key in admin.scan_iter()} <= before
            # What was begun ends all the same: it makes room.
            wired.go.set()
            await wired.ended(held)
            await admin.config_set("maxmemory", "0")
            record_property("recovery", ("full", "server", await wired.serves(time.monotonic())))
        assert [one.output for one in held] == [1] * HELD
        assert not {one.ended.msg_id for one in refused} & set(wired.starts)
        wired.check({"ok", "overloaded"})


async def be_a_replica(admin: redis.asyncio.Redis) -> None:
    """READONLY for who writes."""
    await admin.replicaof("127.0.0.1", "1")


async def be_a_replica_that_knows_nothing(admin: redis.asyncio.Redis) -> None:
    """MASTERDOWN for everybody."""
    await admin.config_set("replica-serve-stale-data", "no")
    await be_a_replica(admin)


@pytest.mark.parametrize(
    "become",
    [
        pytest.param(be_a_replica, marks=pytest.mark.long, id="READONLY"),
        pytest.param(be_a_replica_that_knows_nothing, id="MASTERDOWN"),
    ],
)
async def test_a_server_that_is_a_replica_for_a_while(
    start_server: StartServer, become: Callable[[redis.asyncio.Redis], object], record_property: Note
) -> None:
    """BUGS: redis/redis-py#460."""
    server = start_server()
    async with Wired(server.port, server.url) as wired, admin_of(server.url) as admin:
        async with wired.holding() as held, wired.load():
            await become(admin)  # type: ignore[misc]
            await wired.asks(LASTS)
            await admin.replicaof("NO", "ONE")
            record_property("recovery", (become.__name__, "server", await wired.recovers(time.monotonic())))
        assert [one.output for one in held] == [1] * HELD
        wired.check()


async def loads(url: str) -> bool:
    try:
        async with admin_of(url) as other:
            await other.ping()
    except BusyLoadingError:
        return True
    return False


@pytest.mark.leaves("filler:.*", why="it fills the server")
async def test_a_server_that_loads(start_server: StartServer, record_property: Note) -> None:
    """LOADING for everybody, for some two seconds."""
    server = start_server()
    async with Wired(server.port, server.url) as wired, admin_of(server.url) as admin:
        for number in range(200):
            await admin.set(f"filler:{number}", b"x" * 4_000)
        await admin.config_set("rdbcompression", "no")
        await admin.config_set("loading-process-events-interval-bytes", 1_024)
        async with wired.holding() as held, wired.load():
            await admin.config_set("key-load-delay", 8_000)
            loading = asyncio.create_task(admin.execute_command("DEBUG", "RELOAD"))  # type: ignore[no-untyped-call]
            await wait_until(lambda: loads(server.url), what="LOADING")
            await loading
            record_property("recovery", ("LOADING", "server", await wired.recovers(time.monotonic())))
        assert [one.output for one in held] == [1] * HELD
        wired.check()
