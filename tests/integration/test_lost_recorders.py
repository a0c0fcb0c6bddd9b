"""A process that is killed with records in its hands: a gap says whose, and between when; of one that ends in order nothing is said."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import redis.asyncio

from reach import Agent, Reach
from reach.backend.keys import KeySpace
from reach.backend.port import Backend
from reach.backend.private_server import PrivateServer
from reach.cli.picture import lines_of
from reach.errors import BackendUnavailable
from reach.events.archiver import Archiver
from reach.events.asking import Events
from reach.events.opening import open_store
from reach.events.store import Query
from reach.events.traced import Lost
from reach.registry.lost_recorders import LostRecorders
from reach.testing import wait_until
from reach.tracing.hops import HopRecorder
from reach.tracing.presence import EVERY_US
from reach.tracing.time_base import TimeBase
from tests.e2e.processes import START_S
from tests.integration.sdk.world import ROOT, agent_process, router

pytestmark = [pytest.mark.processes, pytest.mark.leaves_work(why="who is killed leaves its things, as in life")]
RECORDERS = KeySpace("dev").recorders()

CALLER = """
import asyncio, os, sys
from reach import Reach

async def main():
    reach = await Reach.connect(sys.argv[1], agent_id="caller").__aenter__()
    print(reach.mailbox_id, flush=True)
    await asyncio.to_thread(sys.stdin.read)
    if sys.argv[2] == "in order":
        await reach.__aexit__(None, None, None)

asyncio.run(main())
"""


async def _words(backend: Backend) -> dict[str, int]:
    return dict(await backend.silent_recorders(1 << 52))


async def _gaps(backend: Backend) -> list[dict[str, Any]]:
    return await Events(backend).find(Query(fields={"point": ("gap",)}))


async def _sweep(backend: Backend, silent_ms: int = 0) -> int:
    return await LostRecorders(backend).run(await backend.now_ms() + 1, silent_ms)


@asynccontextmanager
async def a_worker(url: str) -> AsyncIterator[asyncio.subprocess.Process]:
    command = ("-m", "reach_worker", "run", "--redis-url", url, "--health-port", "0", "--worker-id", "w9")
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'workers'}"}
    process = await asyncio.create_subprocess_exec(sys.executable, *command, env=environment, stderr=subprocess.DEVNULL)
    yield process


@asynccontextmanager
async def an_agent(url: str) -> AsyncIterator[asyncio.subprocess.Process]:
    async with agent_process(url, "echoes") as process:
        yield process


@pytest.mark.parametrize("kind", [a_worker, an_agent])
async def test_of_a_process_that_was_killed_a_gap_says_between_when(
    server: PrivateServer, backend: Backend, kind: Any
) -> None:
    async with kind(server.url) as process:

        async def there() -> bool:
            return bool(await _words(backend))

        await wait_until(there, START_S, "its first word")
        process.send_signal(signal.SIGKILL)
        await process.wait()
    killed_us = await backend.now_ms() * 1000
    said = await _words(backend)
    ((name, at_ms),) = said.items()
    assert await _sweep(backend) == 1
    (gap,) = await _gaps(backend)
    assert f"{gap.get('node', '')}/{gap['worker']}" == name
    assert (gap["code"], gap["counts"]) == ("process.lost", {"processes": 1})
    assert gap["at_us"] - gap["duration_us"] == at_ms * 1000 <= killed_us <= gap["at_us"] + 1_000
    assert (await _words(backend), await _sweep(backend)) == ({}, 0)


@pytest.mark.parametrize("kind", [a_worker, an_agent])
async def test_of_a_process_that_ends_in_order_nothing_is_said(
    server: PrivateServer, backend: Backend, kind: Any
) -> None:
    async with kind(server.url) as process:

        async def there() -> bool:
            return bool(await _words(backend))

        await wait_until(there, START_S, "its first word")
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), START_S) == 0
    assert (await _words(backend), await _sweep(backend), await _gaps(backend)) == ({}, 0, [])


@pytest.mark.parametrize(("end", "marked"), [("in order", 0), ("without a word", 1)])
async def test_a_caller_that_is_not_closed_counts_as_killed(
    server: PrivateServer, backend: Backend, end: str, marked: int
) -> None:
    command = (sys.executable, "-c", CALLER, server.url, end)
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    mailbox = (await process.stdout.readline()).decode().strip()

    async def there() -> bool:
        return any(name.endswith(f"/{mailbox}") for name in await _words(backend))

    await wait_until(there, START_S, "its first word")
    process.stdin.close()
    await process.wait()
    assert await _sweep(backend) == marked
    assert [gap["worker"] for gap in await _gaps(backend)] == [mailbox] * marked


async def test_who_cannot_write_its_records_does_not_say_that_it_has(server: PrivateServer, backend: Backend) -> None:
    """Its word stays at the moment up to which all is written, so that a later gap begins there."""
    moment_us, full = [EVERY_US], [False]

    async def sink(partition: int, batch: bytes) -> None:
        if full[0]:
            raise BackendUnavailable("OOM")

    base = TimeBase(lambda: moment_us[0], fallback_us=lambda: moment_us[0])
    hops = HopRecorder(sink, base, node="n", worker="w", tell=backend.tell_recorder, flush_ms=0)
    await hops.run_once()
    assert await _words(backend) == {"n/w": EVERY_US // 1000}
    full[0] = True
    hops.add(0, "message.received", "m1")
    moment_us[0] += 10 * EVERY_US
    with pytest.raises(BackendUnavailable):
        await hops.run_once()
    assert await _words(backend) == {"n/w": EVERY_US // 1000}
    assert await hops.close(200) == 1, "one is lost"
    assert list(await _words(backend)) == ["n/w"], "and who has lost something takes no leave"
    full[0] = False
    assert (await hops.close(2_000), await _words(backend)) == (0, {})


async def test_one_that_speaks_again_stays(backend: Backend) -> None:
    now_ms = await backend.now_ms()
    await backend.tell_recorder("n/silent", now_ms - 40_000)
    await backend.tell_recorder("n/well", now_ms)
    assert await LostRecorders(backend).run(now_ms, 30_000) == 1
    assert [gap["worker"] for gap in await _gaps(backend)] == ["silent"]
    assert not await backend.forget_recorder("n/well", now_ms)
    assert await _words(backend) == {"n/well": now_ms}
    await backend.tell_recorder("n/well", None)


@pytest.mark.parametrize("stored", [False, True])
async def test_a_trace_says_whose_records_may_be_missing(
    server: PrivateServer, backend: Backend, tmp_path: Path, stored: bool
) -> None:
    agent = Agent("echoes")

    @agent.capability("echo")
    async def echo(body: int) -> int:
        return body

    async with router(server.url), agent.running(server.url), Reach.connect(server.url, agent_id="caller") as reach:
        receipt = await reach.request("capability:echo", 1)
    now_ms = await backend.now_ms()
    await backend.tell_recorder("n1/killed", now_ms - 1_000)
    await backend.tell_recorder("n1/long-before", now_ms - 90_000)
    await LostRecorders(backend).run(now_ms - 60_000, 0)
    # It is found to be dead much later than anything that it may have left out.
    await LostRecorders(backend).run(now_ms + 3_600_000, 0)
    events = Events(backend)
    if stored:
        url = f"sqlite:{tmp_path}"
        archiver = Archiver(backend, open_store(url), [0], "a1")
        await archiver.run_once()
        await archiver.close()
        await _forget_events(server)
        events = events.with_store(url)
    trace = await events.trace(receipt.msg_id)
    await events.close()
    assert trace is not None
    since_us, until_us = (now_ms - 1_000) * 1000, (now_ms + 3_600_000) * 1000
    assert trace.lost == (Lost(node="n1", worker="killed", since_us=since_us, until_us=until_us),)
    assert trace.missing == 0
    assert "killed on n1 ended without a word: records of it may be missing between" in "\n".join(lines_of(trace))


async def _forget_events(server: PrivateServer) -> None:
    raw = redis.asyncio.Redis.from_url(server.url)
    await raw.xtrim(KeySpace("dev").events(0), maxlen=0)
    await raw.aclose()
