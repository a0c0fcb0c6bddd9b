"""What goes wrong with the server, the workers and the clocks."""

import asyncio
import time
from unittest.mock import patch

import redis.asyncio

from reach.clock import SystemClock
from tests.e2e.processes import free_port
from tests.e2e.symptoms.messages import agent_of, echo
from tests.e2e.symptoms.scene import Scene, symptom


async def configure(scene: Scene, name: str, value: str) -> None:
    """CONFIG SET, until the scene is over."""
    async with redis.asyncio.Redis.from_url(scene.url) as client:
        (before,) = (await client.config_get(name)).values()
        await client.config_set(name, value)

    async def put_back() -> None:
        async with redis.asyncio.Redis.from_url(scene.url) as client:
            await client.config_set(name, before or "")

    scene.at_end(put_back)


@symptom("Nothing happens at all")
async def no_worker(scene: Scene) -> None:
    pass


@symptom("Redis cannot be reached")
async def no_redis(scene: Scene) -> None:
    scene.variables["REACH_REDIS_URL"] = f"redis://127.0.0.1:{free_port()}"


@symptom("Redis is full")
async def full(scene: Scene) -> None:
    await scene.town(agent_of("refund-1", "refund", echo))
    await configure(scene, "maxmemory", "1mb")


@symptom("Messages vanish under load")
async def evicting(scene: Scene) -> None:
    await configure(scene, "maxmemory-policy", "allkeys-lru")


@symptom("Receipts come late")
async def late(scene: Scene) -> None:
    """Nobody has read the door for a minute."""
    async with redis.asyncio.Redis.from_url(scene.url) as client:
        old_ms = int(time.time() * 1000) - 60_000
        await client.xadd("reach:{dev.0}:ingress:normal", {"e": b"{}"}, id=f"{old_ms}-0")

    async def read() -> None:
        """Let a router read it, so that nothing is left."""
        await scene.router()
        async with redis.asyncio.Redis.from_url(scene.url) as client:
            while await client.xlen("reach:{dev.0}:ingress:normal"):
                await asyncio.sleep(0.01)

    scene.at_end(read)


@symptom("Records of two machines do not fit together")
async def clocks(scene: Scene) -> None:
    right = SystemClock.wall_ms
    scene.enter_sync(patch.object(SystemClock, "wall_ms", lambda clock: right(clock) - 60_000))


@symptom("`reach events` knows nothing of a message")
async def no_records(scene: Scene) -> None:
    scene.names["MSG_ID"] = "01a22ec7-0000-7000-8000-000000000000"
