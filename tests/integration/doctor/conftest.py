"""A healthy env on a real server, made by the steps themselves and not by a worker, which would mend what a test breaks."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import redis.asyncio

from reach.backend import open_backend
from reach.backend.keys import KeySpace
from reach.backend.port import Backend
from reach.backend.private_server import PrivateServer
from reach.backend.survey import survey
from reach.cli.doctor import examine
from reach.cli.doctor.finding import Finding
from reach.clock import Clock
from reach.envelope.records import encode_registration
from reach.envelope.registration import Capability, Registration
from tests.servers import StartServer

KEYS = KeySpace("dev")
NOBODY = "00000000-0000-4000-8000-000000000001"
TAKER = "a.1"


class Env:
    """An env with an agent `a` (instance `a.1`) and a worker `w1`, and the doctor's eyes on it."""

    def __init__(self, url: str, raw: redis.asyncio.Redis, backend: Backend) -> None:
        self.url, self.raw, self.backend = url, raw, backend

    async def make(self) -> None:
        """Make everything that a worker and an agent make."""
        registration = Registration(
            agent_id="a", instance_id=TAKER, node_id="n", env="dev", capabilities=(Capability(name="refund"),)
        )
        made = await self.backend.register("a", encode_registration(registration), TAKER, b'{"state":"ready"}', None)
        assert made.ok
        await self.backend.open_inbox(0, "a")
        await self.backend.read_work("w1", [0], 10, 0)
        await self.backend.claim_work("w1", 0, 5_000)  # which makes the consumer, also on Redis 7.0
        await self.backend.read_control("w1", 0)
        await self.backend.due(0)
        await self.raw.hset(KEYS.tick(0), "until", 0)  # the grace of a new env

    async def findings(self, url: str = "", clock: Clock | None = None) -> dict[str, Finding]:
        """Everything that the doctor says."""
        return {finding.check: finding for finding in examine(await survey(url or self.url, "dev", clock=clock))}

    async def finding(self, check: str, url: str = "", clock: Clock | None = None) -> Finding:
        """What one check says."""
        return (await self.findings(url, clock))[check]

    async def ms(self) -> int:
        """The server's clock."""
        return await self.backend.now_ms()

    async def take(self, key: str, group: str, consumer: str, idle_ms: int) -> None:
        """Have an entry taken by somebody, so long ago."""
        entry_id = await self.raw.xadd(key, {"x": "y"})
        await self.raw.xgroup_setid(key, group, "0")
        await self.raw.xreadgroup(group, consumer, {key: ">"})
        await self.raw.xclaim(key, group, consumer, 0, [entry_id], idle=idle_ms, justid=True)


MakeEnv = Callable[..., Awaitable[Env]]


@pytest.fixture
async def make_env(start_server: StartServer) -> AsyncIterator[MakeEnv]:
    """Makes a healthy env on a server of its own, which the test may configure and break."""
    opened: list[Env] = []

    async def make(*extra_args: str, aof: bool = False, healthy: bool = True) -> Env:
        server: PrivateServer = start_server(
            aof=aof, extra_args=extra_args, unlooked="what the doctor is to find is there"
        )
        raw = redis.asyncio.Redis.from_url(server.url, decode_responses=False)
        env = Env(server.url, raw, open_backend(server.url))
        opened.append(env)
        if healthy:
            await env.backend.open()
            await env.make()
        return env

    yield make
    for env in opened:
        await env.backend.close()
        await env.raw.aclose()


@pytest.fixture
async def env(server: PrivateServer, raw: redis.asyncio.Redis) -> AsyncIterator[Env]:
    """A healthy env on the server of the session; the test leaves what it broke, and nobody looks."""
    backend = open_backend(server.url)
    await backend.open()
    made = Env(server.url, raw, backend)
    await made.make()
    yield made
    await raw.flushall()
    await backend.close()
