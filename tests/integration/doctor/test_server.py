"""Each thing that can be wrong with a server: it is set up like that, and the doctor says it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import pytest

from reach.backend.survey import survey
from reach.clock import SystemClock
from reach.errors import BackendDenied, BackendUnavailable, ConfigError
from tests.e2e.processes import free_port
from tests.integration.doctor.conftest import Env, MakeEnv


@pytest.mark.parametrize(
    ("options", "aof", "check", "status", "says", "helps"),
    [
        ((), False, "durability", "warn", "appendonly is off", "CONFIG SET appendonly yes"),
        ((), True, "durability", "ok", "appendonly with fsync everysec", ""),
        (("--appendfsync", "no"), True, "durability", "warn", "appendfsync is no", "CONFIG SET appendfsync everysec"),
        (("--maxmemory-policy", "allkeys-lru"), False, "eviction", "fail", "maxmemory-policy is allkeys-lru", "noeviction"),
        (("--cluster-enabled", "yes"), False, "version", "fail", "part of a Cluster", ""),
        (("--replicaof", "127.0.0.1 1"), False, "version", "fail", "is a replica of 127.0.0.1:1", "redis://127.0.0.1:1"),
    ],
)  # fmt: skip
async def test_how_it_is_set_up(
    make_env: MakeEnv, options: tuple[str, ...], aof: bool, check: str, status: str, says: str, helps: str
) -> None:
    env = await make_env(*options, aof=aof, healthy=False)
    finding = await env.finding(check)
    assert (finding.status, says in finding.says, helps in finding.helps) == (status, True, True), finding


async def test_of_a_cluster_nothing_more_is_asked(make_env: MakeEnv) -> None:
    env = await make_env("--cluster-enabled", "yes", healthy=False)
    assert "agents" not in await env.findings()


async def test_replicas_that_are_wanted_and_missing(make_env: MakeEnv) -> None:
    env = await make_env()
    await env.raw.config_set("min-replicas-to-write", 2)
    finding = await env.finding("durability")
    assert (finding.status, "0 of 2 replicas" in finding.says) == ("fail", True)


async def test_memory_that_runs_out(make_env: MakeEnv) -> None:
    env = await make_env()
    for room, status in ((100.0, "ok"), (1.15, "warn"), (1.01, "fail")):
        used = (await env.raw.info("memory"))["used_memory"]
        await env.raw.config_set("maxmemory", int(used * room))
        finding = await env.finding("memory")
        assert finding.status == status, finding
        assert "maxmemory" in finding.says
        assert ("CONFIG SET maxmemory" in finding.helps) is (status != "ok")


async def test_a_full_server_can_be_looked_at(make_env: MakeEnv) -> None:
    env = await make_env()
    await env.raw.config_set("maxmemory", 1)
    findings = await env.findings()
    assert (findings["memory"].status, findings["scripts"].status) == ("fail", "ok")


@asynccontextmanager
async def slow_way(url: str, delay_s: float) -> AsyncIterator[str]:
    """A proxy that holds every request up."""
    parts = urlsplit(url)
    ways: set[asyncio.Task[None]] = set()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay_s: float) -> None:
        try:
            while data := await reader.read(65_536):
                await asyncio.sleep(delay_s)
                writer.write(data)
        finally:
            writer.close()

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind_reader, behind_writer = await asyncio.open_connection(parts.hostname, parts.port)
        async with asyncio.TaskGroup() as both:
            both.create_task(pump(reader, behind_writer, delay_s))
            both.create_task(pump(behind_reader, writer, 0))

    def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ways.add(asyncio.create_task(carry(reader, writer)))

    port = free_port()
    server = await asyncio.start_server(serve, "127.0.0.1", port)
    try:
        yield f"redis://127.0.0.1:{port}"
    finally:
        server.close()
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)


async def test_a_long_way_to_the_server(env: Env) -> None:
    for delay_s, status in ((0.02, "warn"), (0.11, "fail")):
        async with slow_way(env.url, delay_s) as url:
            finding = await env.finding("latency", url)
        assert (finding.status, "a round trip takes" in finding.says, "SLOWLOG" in finding.helps) == (
            status,
            True,
            True,
        )


async def test_a_server_that_stands_still_now_and_then(env: Env) -> None:
    await env.raw.client_pause(400, all=True)
    finding = await env.finding("latency")
    assert (finding.status, "something stops the server" in finding.says) == ("warn", True)


class Ahead(SystemClock):
    def wall_ms(self) -> int:
        return super().wall_ms() + 9_000


async def test_clocks_that_are_apart(env: Env) -> None:
    finding = await env.finding("clock", clock=Ahead())
    assert finding.status == "warn"
    assert "behind this machine's" in finding.says
    assert "timedatectl" in finding.helps


@pytest.mark.parametrize(
    ("rule", "check", "status", "says"),
    [
        (("-@scripting",), "scripts", "fail", "the step inspect is refused"),
        (("-@scripting",), "rights", "warn", "SCRIPT EXISTS is not allowed"),
        (("-script",), "scripts", "ok", "steps load and run"),
        (("-config",), "rights", "warn", "CONFIG GET is not allowed"),
        (("-xinfo",), "rights", "warn", "XINFO CONSUMERS is not allowed"),
        (("-xinfo",), "groups", "ok", "every door has its group"),
        (("-scan",), "keys", "warn", "only 0 keys were looked at"),
        (("-info",), "version", "warn", "does not say its version"),
    ],
)
async def test_a_user_who_may_not_do_everything(
    make_env: MakeEnv, rule: tuple[str, ...], check: str, status: str, says: str
) -> None:
    env = await make_env()
    await env.raw.acl_setuser(
        "some", enabled=True, passwords=["+pw"], keys=["*"], channels=["*"], commands=["+@all", *rule]
    )
    finding = await env.finding(check, env.url.replace("redis://", "redis://some:pw@"))
    assert (finding.status, says in finding.says) == (status, True), finding


async def test_steps_that_the_server_forgot_are_loaded(env: Env) -> None:
    await env.raw.script_flush()
    assert (await env.finding("scripts")).status == "ok"


async def test_a_server_that_cannot_be_asked(make_env: MakeEnv) -> None:
    env = await make_env()
    with pytest.raises(BackendDenied):
        await survey(env.url.replace("redis://", "redis://nobody:wrong@"), "dev")
    with pytest.raises(BackendUnavailable):
        await survey(f"redis://127.0.0.1:{free_port()}", "dev")
    for url, name in (("memory://", "dev"), (env.url, "a.b"), ("http://x", "dev")):
        with pytest.raises(ConfigError):
            await survey(url, name)
