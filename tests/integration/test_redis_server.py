"""The Redis backend and what the server is set to: its role, its memory, its durability, its rights."""

import asyncio
import os

import pytest
import redis.asyncio

from reach.backend.redis_backend import RedisBackend
from reach.backend.redis_backend.streams import entries_of
from reach.errors import BackendFull, BackendUnavailable
from tests.servers import StartServer


async def test_a_replica_is_unavailable_until_it_is_master_again(start_server: StartServer) -> None:
    """BUGS: redis/redis-py#460: READONLY leads to another connection, not to the same one again."""
    server = start_server(look=False)
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


async def test_a_full_server_refuses_new_work_and_drains_old(start_server: StartServer) -> None:
    """BUGS: OptimalBits/bull#433."""
    server = start_server(look=False)
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
    server = start_server(look=False)
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


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl", "noeviction"])
async def test_an_evicting_policy_is_warned_of(
    start_server: StartServer, policy: str, caplog: pytest.LogCaptureFixture
) -> None:
    """BUGS: rq/rq#1280."""
    server = start_server(extra_args=("--maxmemory-policy", policy))
    backend = RedisBackend(server.url, env="test")
    await backend.open()
    await backend.close()
    warned = [record.__dict__.get("maxmemory_policy") for record in caplog.records]
    assert warned == ([] if policy == "noeviction" else [policy])


async def test_a_unix_socket_is_a_way_too(start_server: StartServer) -> None:
    path = f"/tmp/reach-{os.getpid()}.sock"
    start_server(extra_args=("--unixsocket", path))
    backend = RedisBackend(f"unix://{path}", env="test")
    await backend.open()
    assert await backend.submit(0, "normal", b"{}")
    await backend.close()


def test_entries_without_a_body_are_read_from_every_server() -> None:
    """BUGS: chrisguidry/docket#61: two parts or three, nil or left out."""
    assert entries_of([None, [b"1-1", None], [b"2-1", [b"a", b"1"]]]) == [("1-1", None), ("2-1", {b"a": b"1"})]
    assert entries_of(None) == []
