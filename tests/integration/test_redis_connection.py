"""The Redis backend when connections, replies or the whole server are taken away from it."""

import asyncio
import logging
import os
import signal
from collections.abc import AsyncIterator

import pytest
import redis.asyncio

from reach.backend.connection import MAX_COMMANDS, Link
from reach.backend.keys import KeySpace
from reach.backend.redis_backend import RedisBackend
from reach.backend.scripts import script
from reach.errors import BackendDenied, BackendUnavailable
from tests.servers import StartServer

pytestmark = pytest.mark.leaves_work(why="a router's steps by hand: what it reads is not routed")

KEYS = KeySpace("test")
INGRESS = KEYS.ingress(0, "normal")


@pytest.fixture
async def backend(redis_url: str) -> AsyncIterator[RedisBackend]:
    made = RedisBackend(redis_url, env="test")
    await made.open()
    yield made
    await made.close()


@pytest.fixture
async def link(redis_url: str) -> AsyncIterator[Link]:
    made = Link(redis_url)
    yield made
    await made.close()


async def first_success(backend: RedisBackend, within_s: float = 2.0) -> None:
    """Read as a router does until a read succeeds; it must within 2 s."""

    async def reads() -> bool:
        try:
            await backend.read_work("w", [0], 10, 50)
        except BackendUnavailable:
            return False
        return True

    async with asyncio.timeout(within_s):
        while not await reads():
            pass


async def until_blocked(raw: redis.asyncio.Redis, readers: int = 1) -> list[str]:
    """The connections that wait in a blocking read, as soon as there are so many."""
    async with asyncio.timeout(5):
        while True:
            found = [row["id"] for row in await raw.client_list() if "b" in row["flags"]]
            if len(found) >= readers:
                return found


async def clients(raw: redis.asyncio.Redis) -> list[str]:
    own = await raw.client_id()
    return [row["id"] for row in await raw.client_list() if int(row["id"]) != own]


# ---------------------------------------------------------------- cancelled commands


async def test_B060_a_cancelled_command_closes_its_connection(link: Link, raw: redis.asyncio.Redis) -> None:
    async with asyncio.TaskGroup() as group:
        reading = group.create_task(
            link.read("XREAD", "BLOCK", 2_000, "STREAMS", "reach:{test.0}:again", "$", block_ms=2_000)
        )
        async with asyncio.timeout(5):
            while not await clients(raw):
                pass
        reading.cancel()
    async with asyncio.timeout(2):
        while await clients(raw):
            pass


async def test_a_cancellation_is_never_swallowed(link: Link) -> None:
    for turns in range(30):
        task = asyncio.get_running_loop().create_task(link.call("ECHO", b"x"))
        for _ in range(turns):
            await asyncio.sleep(0)
        was_done = task.done()
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled() or was_done


# ---------------------------------------------------------------- lost connections


async def test_an_idle_connection_that_was_killed_is_noticed_before_use(
    backend: RedisBackend, raw: redis.asyncio.Redis
) -> None:
    for _ in range(20):
        await backend.now_ms()
        for client_id in await clients(raw):
            await raw.client_kill_filter(_id=client_id)
        await raw.ping()  # what the server sent before this has arrived, also the end of the other connection
        assert await backend.now_ms() > 0


async def test_B048_a_killed_blocking_read_raises_and_the_next_one_reads(
    backend: RedisBackend, raw: redis.asyncio.Redis
) -> None:
    await backend.read_work("w", [0], 10, 0)
    async with asyncio.TaskGroup() as group:
        reading = group.create_task(_outcome(backend))
        for client_id in await until_blocked(raw):
            await raw.client_kill_filter(_id=client_id)
        async with asyncio.timeout(2):
            assert await reading == "backend.unavailable"
    await backend.submit(0, "normal", b"{}")
    assert len(await backend.read_work("w", [0], 10, 500)) == 1


async def _outcome(backend: RedisBackend) -> str:
    try:
        await backend.read_work("w", [0], 10, 2_000)
    except BackendUnavailable as error:
        return error.code
    return "read"


@pytest.mark.parametrize("aof", [True, False])
async def test_a_restarted_server_is_used_again_within_two_seconds(start_server: StartServer, aof: bool) -> None:
    server = start_server(aof=aof)
    backend = RedisBackend(server.url, env="test")
    await backend.open()
    await backend.open_inbox(0, "a1")
    await backend.submit(0, "normal", b"before")
    await asyncio.to_thread(server.kill)
    with pytest.raises(BackendUnavailable):
        await backend.submit(0, "normal", b"lost")
    with pytest.raises(BackendUnavailable):
        await backend.read_work("w", [0], 10, 20)
    await asyncio.to_thread(server.restart)
    await first_success(backend)
    await backend.submit(0, "normal", b"after")
    found = {entry.fields[b"e"] for entry in await backend.own_work("w", 0)}
    found |= {entry.fields[b"e"] for entry in await backend.read_work("w", [0], 10, 100)}
    assert found == ({b"before", b"after"} if aof else {b"after"})
    await backend.close()


async def test_a_server_that_does_not_answer_is_given_up(start_server: StartServer) -> None:
    server = start_server()
    link = Link(server.url, command_limit_ms=150)
    await link.call("PING")
    os.kill(server.pid, signal.SIGSTOP)
    try:
        with pytest.raises(BackendUnavailable, match="150 ms"):
            await link.call("PING")
    finally:
        os.kill(server.pid, signal.SIGCONT)
    assert await link.call("ECHO", b"x") == b"x"
    await link.close()


async def test_nobody_there_is_unavailable(unused_tcp_port: int) -> None:
    backend = RedisBackend(f"redis://127.0.0.1:{unused_tcp_port}", env="test")
    with pytest.raises(BackendUnavailable):
        await backend.open()
    await backend.close()


async def test_a_wrong_password_is_denied(raw: redis.asyncio.Redis, redis_url: str) -> None:
    backend = RedisBackend(redis_url.replace("redis://", "redis://nobody:wrong@"), env="test")
    with pytest.raises(BackendDenied):
        await backend.open()
    await backend.close()


async def test_closing_ends_what_waits_and_twice_is_once(redis_url: str, raw: redis.asyncio.Redis) -> None:
    backend = RedisBackend(redis_url, env="test")
    await backend.open()
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(_outcome(backend))
        await until_blocked(raw)
        await backend.close()
        await backend.close()
        async with asyncio.timeout(1):
            assert await waiting == "backend.unavailable"
    with pytest.raises(BackendUnavailable):
        await backend.now_ms()


# ---------------------------------------------------------------- bounds


async def test_B045_more_commands_than_connections_wait_and_none_fails(
    backend: RedisBackend, raw: redis.asyncio.Redis
) -> None:
    moments = await asyncio.gather(*(backend.now_ms() for _ in range(500)))
    assert len(moments) == 500
    assert len(await clients(raw)) <= MAX_COMMANDS


async def test_blocking_reads_do_not_hold_up_commands(backend: RedisBackend, raw: redis.asyncio.Redis) -> None:
    count = MAX_COMMANDS + 10
    async with asyncio.TaskGroup() as group:
        readers = [group.create_task(backend.read_mail(f"box{n}", {0: "$"}, 2_000)) for n in range(count)]
        await until_blocked(raw, count)
        async with asyncio.timeout(1):
            await backend.now_ms()
        for reader in readers:
            reader.cancel()


# ---------------------------------------------------------------- scripts and groups


async def test_forgotten_scripts_are_told_again(backend: RedisBackend, raw: redis.asyncio.Redis) -> None:
    for _ in range(3):
        await raw.script_flush()
        await backend.open_inbox(0, "a1")
        await raw.script_flush()
        await backend.keep_mailbox("box", [0, 1, 2])
    assert (await raw.script_exists(script("keep_mailbox").sha))[0]


async def test_a_group_lost_while_a_read_blocks_comes_back(backend: RedisBackend, raw: redis.asyncio.Redis) -> None:
    await backend.read_work("w", [0], 10, 0)
    async with asyncio.TaskGroup() as group:
        reading = group.create_task(backend.read_work("w", [0], 10, 2_000))
        await until_blocked(raw)
        await raw.flushall()
        await backend.submit(0, "normal", b"{}")
        entries = await reading
    entries = entries or await backend.read_work("w", [0], 10, 0)
    assert [entry.fields[b"e"] for entry in entries] == [b"{}"]


class CountingClock:
    """Time that passes only in `sleep`."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.slept: list[int] = []

    def monotonic_ms(self) -> int:
        return self.now_ms

    def wall_ms(self) -> int:
        return self.now_ms

    async def sleep(self, ms: int) -> None:
        self.slept.append(ms)
        self.now_ms += ms

    def call_later(self, ms: int, call: object) -> None:
        raise AssertionError("not used by the Redis backend")


async def test_B003_healing_is_paced_and_told_once_in_ten_seconds(
    redis_url: str, raw: redis.asyncio.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    """Not 600 NOGROUP errors a second."""
    clock = CountingClock()
    backend = RedisBackend(redis_url, env="test", clock=clock)  # type: ignore[arg-type]
    await backend.open()
    await backend.read_work("w", [0], 10, 0)
    clock.now_ms += 60_000
    caplog.set_level(logging.WARNING)
    for _ in range(10):
        await raw.xgroup_destroy(INGRESS, "routers")
        await backend.read_work("w", [0], 10, 0)
    warned = [record for record in caplog.records if record.__dict__.get("stream") == INGRESS]
    assert len(warned) == 1
    assert len(clock.slept) == 9
    assert all(100 <= ms <= 200 for ms in clock.slept)
    assert len(set(clock.slept)) > 1
    clock.now_ms += 10_000
    await raw.xgroup_destroy(INGRESS, "routers")
    await backend.read_work("w", [0], 10, 0)
    assert len([record for record in caplog.records if record.__dict__.get("stream") == INGRESS]) == 2
    await backend.close()


async def test_a_new_env_is_no_reason_to_warn(backend: RedisBackend, caplog: pytest.LogCaptureFixture) -> None:
    await backend.read_work("w", [0], 10, 0)
    await backend.read_control("w", 0)
    assert [record.message for record in caplog.records] == []
