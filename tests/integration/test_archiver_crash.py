"""Archivers that are killed at each point of their work, several at once, and what a stranger puts among the records."""

import asyncio
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from reach.backend.port import Backend
from reach.backend.private_server import PrivateServer
from reach.events.archiver import GROUP, MAX_ODD_US, Archiver
from reach.events.opening import open_store
from reach.events.store import Event, Query
from tests.integration.spine import Connect
from tests.integration.test_archiver import Lame, drain, kept, store, write

__all__ = ["store"]
pytestmark = pytest.mark.leaves_work(why="the archivers' group stays, as in life")

KILLED = """
import asyncio, os, signal, sys
from reach.backend import open_backend
from reach.events.archiver import Archiver
from reach.events.sqlite import SqliteStore

url, folder, point = sys.argv[1:]

def die():
    os.kill(os.getpid(), signal.SIGKILL)

class Killed(SqliteStore):
    async def write(self, events):
        if point == "followed":
            die()
        kept = await super().write(events)
        if point == "written":
            die()
        return kept

async def main():
    source = open_backend(url)
    await source.open()
    archiver = Archiver(source, Killed(folder), [0], "killed-" + point)
    await archiver.run_once()
    die()

asyncio.run(main())
"""


@pytest.mark.processes
async def test_whoever_is_killed_between_two_steps_each_record_is_kept_once(
    server: PrivateServer, backend: Backend, store: Lame, tmp_path: Path
) -> None:
    for number, point in enumerate(("followed", "written", "finished")):
        await write(backend, number)
        dead = [sys.executable, "-c", KILLED, server.url, str(tmp_path), point]
        run = await asyncio.to_thread(subprocess.run, dead, capture_output=True, text=True, timeout=60)
        assert run.returncode == -9, run.stderr
    archiver = Archiver(backend, store, [0], "alive", take_over_ms=0)
    await drain(archiver)
    assert await kept(store) == ["m0", "m1", "m2"]
    await archiver.close()


@pytest.mark.processes
@pytest.mark.parametrize("point", ["followed", "written", "finished"])
async def test_whoever_is_killed_after_hearing_of_a_gap_the_gap_is_kept_once(
    server: PrivateServer, backend: Backend, connect: Connect, store: Lame, tmp_path: Path, point: str
) -> None:
    """What is trimmed in somebody's hands, and what is trimmed unread: the count is in Redis until the store has it."""
    await backend.set_meta("meta", "max_events", b"2")
    bounded = await connect()
    await write(bounded, 0)
    await bounded.follow_events(0, GROUP, "held-by-the-dead")
    for number in range(1, 6):
        await write(bounded, number)
    dead = [sys.executable, "-c", KILLED, server.url, str(tmp_path), point]
    run = await asyncio.to_thread(subprocess.run, dead, capture_output=True, text=True, timeout=60)
    assert run.returncode == -9, run.stderr
    archiver = Archiver(bounded, store, [0], "alive", take_over_ms=0)
    await drain(archiver)
    assert sorted(await kept(store)) == ["gap of 1", "gap of 3", "m4", "m5"]
    await archiver.close()


async def test_readers_that_died_are_forgotten(server: PrivateServer, backend: Backend, store: Lame) -> None:
    import redis.asyncio

    await write(backend, 1)
    for number in range(5):
        await backend.follow_events(0, GROUP, f"dead-{number}", 1, idle_ms=0)
    for take_over in range(2):
        await drain(Archiver(backend, store, [0], f"alive-{take_over}", take_over_ms=0))
    asked = redis.asyncio.Redis.from_url(server.url)
    keys = [key async for key in asked.scan_iter("*events*")]
    names = [one["name"] for key in keys for one in await asked.xinfo_consumers(key, GROUP)]
    await asked.aclose()
    assert names == [b"alive-1"]
    assert await kept(store) == ["m1"]


async def test_several_share_the_work_and_keep_each_record_once(connect: Connect, tmp_path: Path) -> None:
    sources = [await connect() for _ in range(3)]
    for number in range(60):
        await write(sources[0], number)
    stores = [open_store(f"sqlite:{tmp_path}") for _ in sources]
    archivers = [Archiver(source, to, [0], f"a{n}") for n, (source, to) in enumerate(zip(sources, stores, strict=True))]

    async def work(archiver: Archiver) -> None:
        for start in range(60, 90):
            await write(sources[0], start)
            await archiver.run_once()
        await drain(archiver)

    await asyncio.gather(*map(work, archivers))
    await asyncio.gather(*(archiver.close() for archiver in archivers))
    found = await open_store(f"sqlite:{tmp_path}").find(Query(max_found=1_000))
    assert len(found) == 60 + 3 * 30
    assert {one["msg_id"] for one in found} == {f"m{number}" for number in range(90)}


async def test_a_record_of_an_impossible_moment_is_filed_when_it_was_written(
    backend: Backend, store: Lame, tmp_path: Path
) -> None:
    now_us = await backend.now_ms() * 1000
    odd = [0, 1, now_us - 2 * MAX_ODD_US, now_us + 2 * MAX_ODD_US, (1 << 62) - 1, "soon"]
    await backend.record(0, msgspec.json.encode([{"at_us": at_us} for at_us in odd]))
    archiver = Archiver(backend, store, [0], "a1")
    await drain(archiver)
    assert len(await store.find(Query(since_us=now_us - 60_000_000, until_us=now_us + 60_000_000))) == len(odd)
    assert len(tuple(await asyncio.to_thread(tmp_path.glob, "*.sqlite"))) == 1
    await archiver.close()


async def test_a_file_that_cannot_be_deleted_keeps_no_record_out(backend: Backend, tmp_path: Path) -> None:
    (tmp_path / "events-2001-01-01.sqlite").mkdir()
    await write(backend, 1)
    archiver = Archiver(backend, Lame(str(tmp_path), days=3), [0], "a1")
    assert await archiver.run_once() == {"kept": 1}
    await archiver.close()


async def test_closing_ends_also_where_more_comes_than_can_be_kept(
    backend: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Flooded(Lame):
        async def write(self, events: Sequence[Event]) -> int:
            await write(backend, 1)
            return await super().write(events)

    monkeypatch.setattr("reach.events.archiver.CLOSE_S", 0.05)
    flooded = Flooded(str(tmp_path))
    await write(backend, 1)
    async with asyncio.timeout(30):
        await Archiver(backend, flooded, [0], "a1").close()
