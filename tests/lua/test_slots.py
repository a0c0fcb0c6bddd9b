"""Each script touches only the keys that its one declared key stands for: as ACL users, and on a cluster node."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import redis.asyncio

from reach.backend import open_backend, scripts
from reach.backend.port import Backend
from reach.errors import BackendDenied, ConfigError
from tests.lua.all_steps import ENV_STEPS, EVERYWHERE, partition_steps, walk_env, walk_partition
from tests.servers import StartServer

ENV = "test"


@asynccontextmanager
async def unopened(url: str) -> AsyncIterator[Backend]:
    """A backend that asks nothing of the server before its first step."""
    backend = open_backend(url, env=ENV)
    try:
        yield backend
    finally:
        await backend.close()


async def limited_url(raw: redis.asyncio.Redis, url: str, pattern: str) -> str:
    """A user who may do everything, but only with these keys."""
    await raw.execute_command("ACL", "SETUSER", "limited", "reset", "on", ">secret", f"~{pattern}", "+@all")  # type: ignore[no-untyped-call]
    return url.replace("redis://", "redis://limited:secret@")


async def ran(raw: redis.asyncio.Redis) -> set[str]:
    """The steps that the server knows since SCRIPT FLUSH: those that were run."""
    steps = scripts.all_scripts()
    known = await raw.script_exists(*(step.sha for step in steps.values()))
    return {name for name, there in zip(steps, known, strict=True) if there}


async def test_partition_steps_need_the_keys_of_their_partition_only(raw: redis.asyncio.Redis, redis_url: str) -> None:
    await raw.script_flush()
    async with unopened(await limited_url(raw, redis_url, "reach:{test.0}:*")) as backend:
        await walk_partition(backend)
        assert await ran(raw) >= partition_steps()
        with pytest.raises(BackendDenied):
            await backend.open_inbox(1, "a1")
        with pytest.raises(BackendDenied):
            await backend.beat("a1", "i1", b"{}")


async def test_env_steps_need_the_keys_of_their_env_only(raw: redis.asyncio.Redis, redis_url: str) -> None:
    await raw.script_flush()
    async with unopened(await limited_url(raw, redis_url, "reach:{test}:*")) as backend:
        await walk_env(backend)
        assert await ran(raw) >= ENV_STEPS | EVERYWHERE
        with pytest.raises(BackendDenied):
            await backend.open_inbox(0, "a1")


async def test_no_step_leaves_its_slot(start_server: StartServer) -> None:
    """On a cluster node an undeclared key of another slot is an error: this is what `#!lua` is for."""
    server = start_server(
        extra_args=("--cluster-enabled", "yes"),
        unlooked="a cluster node, which the plain client of the look cannot scan",
    )
    async with redis.asyncio.Redis.from_url(server.url) as node:
        await node.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)  # type: ignore[no-untyped-call]
        async with asyncio.timeout(10):
            while not re.search(r"cluster_state\W+ok", str(await node.execute_command("CLUSTER", "INFO"))):  # type: ignore[no-untyped-call]
                pass
    async with unopened(server.url) as backend:
        await walk_partition(backend)
        await walk_env(backend)
        with pytest.raises(ConfigError, match="Cluster"):
            await backend.open()
