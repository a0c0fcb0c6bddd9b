"""The Redis backend and what the server is set to: its role, its memory, its durability, its rights."""

import asyncio
import os
from collections.abc import Coroutine
from typing import Any

import pytest
import redis.asyncio

from reach.backend.redis_backend import RedisBackend
from reach.backend.redis_backend.streams import entries_of
from reach.backend.steps import Refuse, WorkEntry
from reach.clock import SystemClock
from reach.errors import BackendError, BackendFull, BackendUnavailable, ConfigError, IngressFull
from tests.servers import StartServer


class _Hasty(SystemClock):
    """A clock that a test can put ahead."""

    ahead_ms = 0

    def monotonic_ms(self) -> int:
        return super().monotonic_ms() + self.ahead_ms


async def test_a_replica_is_unavailable_until_it_is_master_again(start_server: StartServer) -> None:
    """BUGS: redis/redis-py#460: READONLY leads to another connection, not to the same one again."""
    server = start_server()
    backend = RedisBackend(server.url, env="test")
    await backend.open()
    async with redis.asyncio.Redis.from_url(server.url) as admin:
        await admin.replicaof("127.0.0.1", "1")
        for write in (backend.submit(0, "normal", b"{}"), backend.open_inbox(0, "a1"), backend.keep_mailbox("b", [0])):
            with pytest.raises(BackendUnavailable):
                await write
        await admin.replicaof("NO", "ONE")
    assert await backend.submit(0, "normal", b"{}")
    await backend.close()


@pytest.mark.leaves_work(why="steps by hand: their consumers stay")
async def test_B109_a_full_server_refuses_new_work_and_drains_old(start_server: StartServer) -> None:
    server = start_server()
    backend = RedisBackend(server.url, env="test")
    await backend.open()
    await backend.open_inbox(0, "a1")
    entry_id = await backend.submit(0, "normal", b"{}")
    async with redis.asyncio.Redis.from_url(server.url) as admin:
        await admin.config_set("maxmemory", "1mb")
        with pytest.raises(BackendFull):
            await backend.submit(0, "normal", b"{}")
        with pytest.raises(BackendFull):
            await backend.register("a1", b"{}", "i1", b"{}", None)
        (entry,) = await backend.read_work("w", [0], 10, 0)
        assert entry.id == entry_id
        await backend.finish_work(0, [entry])
        assert (await backend.due(0)).events == ()
        assert (await backend.take(0, "a1", "i1", 1)).gone is False
        await backend.keep_mailbox("box", [0])
        await admin.config_set("maxmemory", "0")
    assert await backend.submit(0, "normal", b"{}")
    await backend.close()


@pytest.mark.parametrize(
    ("settings", "durability"),
    [
        ({}, "memory"),
        ({"appendonly": "yes", "appendfsync": "everysec"}, "everysec"),
        ({"appendonly": "yes", "appendfsync": "always"}, "always"),
        ({"appendonly": "yes", "appendfsync": "no"}, "memory"),
        ({"appendonly": "yes", "appendfsync": "always", "min-replicas-to-write": "2"}, "replicated:2"),
    ],
)
async def test_the_durability_class_is_what_the_server_is_set_to(
    start_server: StartServer, settings: dict[str, str], durability: str
) -> None:
    server = start_server()
    async with redis.asyncio.Redis.from_url(server.url) as admin:
        for name, value in settings.items():
            await admin.config_set(name, value)
    backend = RedisBackend(server.url, env="test")
    await backend.open()
    assert backend.durability == durability
    await backend.close()
    await asyncio.to_thread(server.kill)  # SIGTERM would wait for the rewriting of the append-only file


async def test_a_user_who_may_not_ask_sees_the_least(raw: redis.asyncio.Redis, redis_url: str) -> None:
    await raw.execute_command(
        "ACL", "SETUSER", "modest", "reset", "on", ">pw", "~reach:*", "+@all", "-@admin", "-@dangerous"
    )  # type: ignore[no-untyped-call]
    backend = RedisBackend(redis_url.replace("redis://", "redis://modest:pw@"), env="test")
    await backend.open()
    assert (backend.durability, backend.partitions) == ("memory", 1)
    assert await backend.submit(0, "normal", b"{}")
    await backend.close()


async def test_a_unix_socket_is_a_way_too(start_server: StartServer) -> None:
    path = f"/tmp/reach-{os.getpid()}.sock"
    start_server(extra_args=("--unixsocket", path))
    backend = RedisBackend(f"unix://{path}", env="test")
    await backend.open()
    assert await backend.submit(0, "normal", b"{}")
    await backend.close()


def test_B017_entries_without_a_body_are_read_from_every_server() -> None:
    """Two parts or three, nil or left out."""
    assert entries_of([None, [b"1-1", None], [b"2-1", [b"a", b"1"]]]) == [("1-1", None), ("2-1", {b"a": b"1"})]
    assert entries_of(None) == []


async def test_a_refusal_is_told_by_every_method_and_healed_by_none(raw: redis.asyncio.Redis, redis_url: str) -> None:
    """A key that one may not touch is not a key that is lost."""
    await raw.execute_command("ACL", "SETUSER", "stranger", "reset", "on", ">pw", "~elsewhere:*", "+@all")  # type: ignore[no-untyped-call]
    backend = RedisBackend(redis_url.replace("redis://", "redis://stranger:pw@"), env="test")
    entry = WorkEntry("ingress", 0, "reach:{test.0}:ingress:normal", "1-1", {})
    calls: list[Coroutine[Any, Any, object]] = [
        backend.open(),
        backend.submit(0, "normal", b"{}"),
        backend.keep_mailbox("box", [0]),
        backend.read_mail("box", {0: "0"}, 0),
        backend.inspect(0, "m"),
        backend.cancel(0, "m", "s", 1, 0),
        backend.read_work("w", [0], 1, 0),
        backend.own_work("w", 0),
        backend.claim_work("w", 0, 1_000),
        backend.route(0, [Refuse(entry)]),
        backend.due(0),
        backend.open_inbox(0, "a1"),
        backend.close_inbox(0, "a1"),
        backend.take(0, "a1", "i1", 1),
        backend.ring("a1", {0: {"high": "0"}}, 0),
        backend.renew(0, "a1", "i1", {"high": ["1-1"]}),
        backend.progress(0, "m", 0, "1-1", None),
        backend.send_control(b"{}"),
        backend.read_control("w", 0),
        backend.register("a1", b"{}", "i1", b"{}", None),
        backend.registration("a1"),
        backend.beat("a1", "i1", b"{}"),
        backend.leave("a1", "i1"),
        backend.snapshot(),
        backend.changes("0-0", 0),
        backend.last_beats(0),
        backend.overdue_beats(0),
        backend.set_meta("routes", "r", b"{}"),
        backend.lock("reaper", "w", 1_000),
        backend.record(0, b"[]"),
        backend.read_events(0, "0", 0),
        backend.dead_letters(0),
    ]
    told = [await _told(call) for call in calls]
    await backend.close()
    assert [(number, code) for number, code in enumerate(told) if code != "backend.denied"] == []


async def _told(call: Coroutine[Any, Any, object]) -> str:
    try:
        await call
    except BackendError as error:
        return error.code
    return "nothing"


async def test_settings_that_make_no_sense_are_refused(raw: redis.asyncio.Redis, redis_url: str) -> None:
    backend = RedisBackend(redis_url, env="test")
    for nonsense in ("0", "-1", "many", "99999"):
        await raw.hset("reach:{test}:meta", "partitions", nonsense)
        with pytest.raises(ConfigError, match="partitions"):
            await backend.open()
    await backend.close()


async def test_a_bound_that_is_changed_is_read_by_who_only_sends_within_a_minute(start_server: StartServer) -> None:
    server = start_server()
    clock = _Hasty()
    backend = RedisBackend(server.url, env="test", clock=clock)
    await backend.open()
    await backend.set_meta("meta", "max_ingress", b"1")
    for _ in range(2):
        await backend.submit(0, "normal", b"{}")
    clock.ahead_ms += 60_000
    with pytest.raises(IngressFull):
        await backend.submit(0, "normal", b"{}")
    await backend.set_meta("meta", "max_ingress", None)
    clock.ahead_ms += 60_000
    assert await backend.submit(0, "normal", b"{}")
    await backend.close()
