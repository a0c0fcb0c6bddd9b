"""Whoever has done the work ends at once, as when something is rolled out: every record of it is in the store, each once."""

import asyncio
import signal
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from pathlib import Path

import msgspec
import pytest
import redis

from reach import Agent, Context, Reach
from reach.backend import open_backend
from reach.backend.keys import KeySpace
from reach.backend.private_server import PrivateServer
from reach.events.archiver import GROUP
from reach.events.opening import open_store
from reach.events.store import MAX_FOUND, Query
from reach.testing import wait_until
from tests.e2e.conftest import StartWorker
from tests.integration.sdk.world import agent_process

pytestmark = [pytest.mark.processes, pytest.mark.leaves_work(why="the archivers' group stays, as in life")]

EVENTS = KeySpace("dev").events(0)
REQUESTS = 40
RUN = ("agent.received", "agent.responding", "agent.completed")
ALL = ("message.received", "route.matched", "route.sent", *RUN, "message.delivered")


@asynccontextmanager
async def in_this_process(url: str) -> AsyncIterator[Callable[[], None]]:
    """An agent that ends with its `async with`."""
    agent = Agent("echoes")

    @agent.capability("echo")
    async def echo(body: int, ctx: Context) -> int:
        return body

    async with agent.running(url):
        yield lambda: None


@asynccontextmanager
async def in_its_own_process(url: str) -> AsyncIterator[Callable[[], None]]:
    """An agent that ends by SIGTERM."""
    async with agent_process(url, "echoes") as process:
        yield lambda: process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 10) == 0


@pytest.mark.parametrize("an_agent", [in_this_process, in_its_own_process])
async def test_all_end_right_after_their_work_and_no_record_is_missing(
    server: PrivateServer,
    start_worker: StartWorker,
    tmp_path: Path,
    an_agent: Callable[[str], AbstractAsyncContextManager[Callable[[], None]]],
) -> None:
    store = f"sqlite:{tmp_path}"
    worker = start_worker("--worker-id", "r1").wait_ready()
    archiver = start_worker("--roles", "archiver", "--event-store", store).wait_ready()
    async with an_agent(server.url) as end:
        async with Reach.connect(server.url, agent_id="caller") as reach:
            await wait_until(lambda: reach.backend.registered("echoes"), 10, "the registration")
            receipts = await asyncio.gather(*(reach.request("capability:echo", n) for n in range(REQUESTS)))
        end()
    assert {receipt.code for receipt in receipts} == {"ok"}
    for each in (worker, archiver):
        status, log = each.drain()
        assert (status, [line for line in log if line["level"] in {"warning", "error"}]) == (0, [])
    found = await open_store(store).find(Query(max_found=MAX_FOUND))
    assert Counter((one["msg_id"], one["point"]) for one in found if one["msg_id"]) == Counter(
        (receipt.msg_id, point) for receipt in receipts for point in ALL
    )
    assert not [one for one in found if one["point"] == "gap"]


async def fill(url: str, batches: int, name: str) -> set[str]:
    """So many batches of a hundred records: their ids."""
    backend = open_backend(url)
    await backend.open()
    at_us = await backend.now_ms() * 1000
    names = [[f"{name}{number}-{n}" for n in range(100)] for number in range(batches)]
    for own in names:
        await backend.record(0, msgspec.json.encode([{"at_us": at_us, "msg_id": one} for one in own]))
    await backend.close()
    return {one for own in names for one in own}


def kept_in(folder: Path) -> list[str]:
    """The ids of all records that lie in the files, as often as they do."""
    found: list[str] = []
    for path in folder.glob("events-*.sqlite"):
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as database:
            tables = database.execute("SELECT count(*) FROM sqlite_master WHERE name = 'batches'").fetchone()[0]
            found += [name for (name,) in database.execute("SELECT msg_id FROM events")] if tables else []
    for path in folder.glob("events-*.jsonl"):
        found += [msgspec.json.decode(line)["event"]["msg_id"] for line in path.read_bytes().splitlines()]
    return found


def has_begun(folder: Path) -> bool:
    """Whether anything is kept. Of lines the last one may be half written just now: only their bytes are looked at."""
    lines = list(folder.glob("events-*.jsonl"))
    return any(path.stat().st_size for path in lines) or (not lines and bool(kept_in(folder)))


@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
async def test_an_archiver_that_is_stopped_in_the_middle_of_its_work_leaves_nothing_out_and_keeps_nothing_twice(
    server: PrivateServer, start_worker: StartWorker, tmp_path: Path, kind: str
) -> None:
    written = await fill(server.url, 120, "a")
    first = start_worker("--roles", "archiver", "--event-store", f"{kind}:{tmp_path}")
    await wait_until(lambda: has_begun(tmp_path), 20, "the first records")
    written |= await fill(server.url, 20, "b")
    assert first.drain()[0] == 0
    with redis.Redis.from_url(server.url) as client:
        (group,) = [one for one in client.xinfo_groups(EVENTS) if one["name"] == GROUP.encode()]
        assert (group["pending"], group["consumers"]) == (0, 0)
    second = start_worker("--roles", "archiver", "--event-store", f"{kind}:{tmp_path}").wait_ready()
    assert second.drain()[0] == 0
    kept = kept_in(tmp_path)
    assert len(kept) == len(set(kept))
    assert set(kept) == written
