"""Stops, told and forced, of an agent in a process of its own whose slots are full: nothing is lost, and what is done is done once."""

import asyncio
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
import redis.asyncio

from reach import Reach
from reach.backend.keys import LANES, KeySpace
from reach.sdk.handle import Handle
from reach.testing import wait_until
from tests.bugs.served import served
from tests.bugs.stopping_agent import CONCURRENCY
from tests.integration.sdk.world import ROOT

pytestmark = pytest.mark.processes

KEYS = KeySpace("dev")
QUEUED = 12
GRACE_S = 2.0
SLOW_S = 50
LATE_S = 5.0  # what a machine that many tests share may be late
STARTS_S = 20.0


class Journal:
    """What the agents have written down."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()

    def count(self, what: str, pid: int | None = None) -> Counter[str]:
        """How often it happened, for each number; of one process or of all."""
        rows = (line.split() for line in self.path.read_text().splitlines())
        return Counter(row[1] for row in rows if row[0] == what and pid in {None, int(row[2])})

    def let_go(self) -> None:
        """Answers that are held may be written."""
        self.path.with_suffix(".go").touch()


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal")


@asynccontextmanager
async def agent_of(
    url: str, journal: Journal, seconds: int | Literal["go"], *more: str, grace_s: float = GRACE_S
) -> AsyncIterator[asyncio.subprocess.Process]:
    """One instance of the agent; killed at the end if it still runs."""
    environment = {**os.environ, "REACH_REDIS_URL": url, "PYTHONPATH": str(ROOT)}
    argv = ["-m", "tests.bugs.stopping_agent", str(journal.path), str(seconds), str(grace_s), *more]
    process = await asyncio.create_subprocess_exec(sys.executable, *argv, env=environment, cwd=ROOT)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def ended(process: asyncio.subprocess.Process, number: signal.Signals) -> float:
    """Tell it, and wait for its end: how long it took."""
    began = time.monotonic()
    process.send_signal(number)
    async with asyncio.timeout(STARTS_S):
        await process.wait()
    return time.monotonic() - began


async def lanes(raw: redis.asyncio.Redis) -> AsyncIterator[str]:
    for lane in LANES:
        if await raw.exists(key := KEYS.inbox(0, "worker", lane)):
            yield key


async def pending(raw: redis.asyncio.Redis) -> list[tuple[str, dict[str, Any]]]:
    """(lane, entry) of what somebody has."""
    return [(key, row) async for key in lanes(raw) for row in await raw.xpending_range(key, "agent", "-", "+", 100)]


async def lease_over(raw: redis.asyncio.Redis) -> None:
    """What is pending now was renewed 20 s ago, and no grace runs: that spares the test these 20 s."""
    await raw.hset(KEYS.tick(0), "until", "0")
    for key, row in await pending(raw):
        claim = (row["consumer"], row["message_id"])
        # As a script, since redis-py cannot read what XCLAIM ... JUSTID answers.
        await raw.eval(
            "return #redis.call('XCLAIM', KEYS[1], 'agent', ARGV[1], 0, ARGV[2], 'IDLE', 20000, 'JUSTID')",
            1,
            key,
            *claim,
        )
    waiting: Any = await raw.zrange(KEYS.due(0), 0, -1)
    for msg_id in waiting:
        await raw.zadd(KEYS.due(0), {msg_id: 0})


async def full(reach: Reach, journal: Journal, process: asyncio.subprocess.Process) -> list[Handle]:
    """Every slot of it works, its effect is had and recorded (between the two a kill may repeat it), and much more lies in its inbox."""
    # What nobody can take waits for so long: the next process must have started by then.
    await reach.backend.set_meta("routes", "agent_id:worker", b'{"timeouts":{"network_ms":20000}}')
    await wait_until(lambda: reach.backend.registered("worker"), STARTS_S, "its registration")
    handles = [await reach.send("worker", number, timeout=60, ttl=60) for number in range(CONCURRENCY + QUEUED)]
    await wait_until(lambda: journal.count("kept", process.pid).total() == CONCURRENCY, STARTS_S, "its full slots")
    return handles


async def outputs(handles: list[Handle]) -> list[tuple[str, Any, int]]:
    """(code, output, attempts) of each."""
    receipts = [await handle.receipt(STARTS_S) for handle in handles]
    return [(receipt.code, receipt.output, receipt.attempts) for receipt in receipts]


# ---------------------------------------------------------------- B085


async def test_B085_what_a_stopped_agent_has_not_begun_is_others_at_once(
    redis_url: str, raw: redis.asyncio.Redis, journal: Journal
) -> None:
    async with served(redis_url) as reach:
        async with agent_of(redis_url, journal, SLOW_S) as first:
            handles = await full(reach, journal, first)
            took_s = await ended(first, signal.SIGTERM)
        assert first.returncode == 0
        assert took_s <= GRACE_S + LATE_S
        assert await pending(raw) == []  # what was begun has been given back, the rest was never taken
        assert [
            key async for key in lanes(raw)
        ] == []  # the last one has taken its inbox along: what lay there is decided anew
        assert journal.count("began").total() == CONCURRENCY
        async with agent_of(redis_url, journal, 0) as second:
            assert sorted(await outputs(handles)) == [("ok", number, 1) for number in range(len(handles))]
            assert journal.count("began", second.pid).total() == len(handles)
            assert set(journal.count("booked").values()) == {1}
            assert await ended(second, signal.SIGTERM) <= GRACE_S + LATE_S


async def test_B085_what_ends_within_the_grace_is_not_run_again(redis_url: str, journal: Journal) -> None:
    async with served(redis_url) as reach:
        async with agent_of(redis_url, journal, "go", grace_s=STARTS_S) as first:
            handles = await full(reach, journal, first)
            first.send_signal(signal.SIGTERM)
            await wait_until(lambda: _drains(reach), STARTS_S, "its farewell")
            journal.let_go()
            assert await asyncio.wait_for(first.wait(), STARTS_S / 2) == 0
        done = journal.count("ended")
        assert done.total() == CONCURRENCY  # and nothing more was taken after the signal
        async with agent_of(redis_url, journal, 0) as second:
            assert {code for code, _, _ in await outputs(handles)} == {"ok"}
            assert journal.count("began", second.pid).total() == QUEUED
            assert set(journal.count("began").values()) == {1}
            await ended(second, signal.SIGTERM)


@pytest.mark.leaves_work(why="a process is killed, and its consumer stays until it is swept")
async def test_B085_what_a_killed_agent_had_is_others_after_its_lease(
    redis_url: str, raw: redis.asyncio.Redis, journal: Journal
) -> None:
    async with served(redis_url) as reach:
        async with agent_of(redis_url, journal, SLOW_S) as first:
            handles = await full(reach, journal, first)
            await ended(first, signal.SIGKILL)
        assert len(await pending(raw)) == CONCURRENCY  # no more than its slots: nothing is fetched ahead
        await lease_over(raw)
        async with agent_of(redis_url, journal, 0) as second:
            found = await outputs(handles)
            assert sorted((code, output) for code, output, _ in found) == [("ok", n) for n in range(len(handles))]
            assert Counter(attempts for _, _, attempts in found) == {1: QUEUED, 2: CONCURRENCY}
            assert set(journal.count("booked").values()) == {1}
            await ended(second, signal.SIGTERM)


# ---------------------------------------------------------------- B087


async def test_B087_what_is_done_is_written_down_before_the_connection_closes(
    redis_url: str, raw: redis.asyncio.Redis, journal: Journal
) -> None:
    """The signal comes when the handler has returned and its answer is not written yet."""
    async with served(redis_url) as reach:
        async with agent_of(redis_url, journal, 0, "hold") as first:
            await wait_until(lambda: reach.backend.registered("worker"), STARTS_S, "its registration")
            handle = await reach.send("worker", 7, timeout=60)
            await wait_until(lambda: journal.count("settling"), STARTS_S, "the end of the handler")
            first.send_signal(signal.SIGTERM)
            await wait_until(lambda: _drains(reach), STARTS_S, "its farewell")
            assert (await handle.status()).state == "open"
            journal.let_go()
            assert await asyncio.wait_for(first.wait(), STARTS_S) == 0
        assert (await handle.status()).state == "ended"
        assert await pending(raw) == []
        assert [key async for key in lanes(raw)] == []
        receipt = await handle.receipt(STARTS_S)
        assert (receipt.code, receipt.output, receipt.attempts) == ("ok", 7, 1)
        assert journal.count("began") == journal.count("booked") == {"7": 1}


async def _drains(reach: Reach) -> bool:
    _, beats = await reach.backend.last_beats(0)
    return any(b'"draining"' in beat.beat for beat in beats)


@pytest.mark.leaves_work(why="a process is killed, and its consumer stays until it is swept")
async def test_B087_what_is_done_and_not_written_down_has_no_second_effect(
    redis_url: str, raw: redis.asyncio.Redis, journal: Journal
) -> None:
    """Redis does not take the answer within the grace, or the process is killed there: it runs again, and the guard knows."""
    async with served(redis_url) as reach:
        async with agent_of(redis_url, journal, 0, "hold") as first:
            await wait_until(lambda: reach.backend.registered("worker"), STARTS_S, "its registration")
            handle = await reach.send("worker", 7, timeout=60)
            await wait_until(lambda: journal.count("settling"), STARTS_S, "the end of the handler")
            await ended(first, signal.SIGKILL)
        await lease_over(raw)
        async with agent_of(redis_url, journal, 0) as second:
            receipt = await handle.receipt(STARTS_S)
            assert (receipt.code, receipt.output, receipt.attempts) == ("ok", 7, 2)
            assert journal.count("began") == {"7": 2}
            assert journal.count("booked") == {"7": 1}
            await ended(second, signal.SIGTERM)
