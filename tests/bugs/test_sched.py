"""SCHED: who is served when, how often who is cut off asks again, and what a sweep costs when there is much to look through."""

import asyncio
import time
from collections import Counter, defaultdict
from contextlib import AsyncExitStack
from contextvars import ContextVar
from statistics import mean, pstdev
from typing import Any

import pytest
import redis.asyncio

from reach import Agent, Reach
from reach.backend import open_backend
from reach.backend.keys import GROUP_AGENT
from reach.backend.private_server import PrivateServer
from reach.backend.steps import WorkEntry
from reach.clock import SystemClock
from reach.testing import TestReach, wait_until
from tests.bugs.town import echo_agent
from tests.contract.drive import AGENT, TO_AGENT, Drive, retryable, success
from tests.contract.places import ENV, KEYS
from tests.contract.test_fairness import backlog
from tests.faults.healing import listening
from tests.faults.proxy import FaultProxy
from tests.integration.sdk.world import router

# ---------------------------------------------------------------- B113: high first, also after a retry; low is not starved
LONG = pytest.mark.long, pytest.mark.timeout(900)
LATE: dict[str, Any] = {"ttl_ms": 600_000, "total_ms": 600_000}


async def served(drive: Drive, runs: int, *, at_once: int = 1) -> list[str]:
    """The lanes of so many runs, by an agent that holds so many at once and answers each."""
    lanes: list[str] = []
    while len(lanes) < runs:
        for taken in (await drive.backend.take(0, AGENT, "i1", at_once, turn=len(lanes))).taken:
            lanes.append(taken.lane)
            assert await drive.settle(taken, success()) == "done"
    return lanes


@pytest.mark.parametrize("count", [1_000, pytest.param(10_000, marks=LONG)])
@pytest.mark.parametrize("at_once", [1, 50])
async def test_B113_ten_high_behind_a_backlog_of_low_are_next(drive: Drive, count: int, at_once: int) -> None:
    await backlog(drive, count, lane="low")
    assert await served(drive, at_once, at_once=at_once) == ["low"] * at_once
    for _ in range(10):
        await drive.sent(lane="high", sender="urgent")
    lanes = await served(drive, 12, at_once=at_once)
    assert lanes[:12].count("high") == 10, "at most one in eight of another lane comes between them"


async def test_B113_high_is_first_again_after_a_retry_and_when_its_holder_is_lost(drive: Drive) -> None:
    await drive.past_grace()
    failed = await drive.running(lane="high", sender="urgent", **LATE)
    await backlog(drive, 20, lane="low", network_ms=600_000, **LATE)
    assert await drive.settle(failed, retryable()) == "done"
    await drive.decide(await drive.asked_again(), TO_AGENT)
    (again,) = await drive.take("i1", free=1)
    assert (again.msg_id, again.attempt) == (failed.msg_id, 2)
    entries: list[WorkEntry] = []
    for _ in range(6):  # i1 is dead; on a slow machine a grace begins anew meanwhile
        await drive.live(10_000)
        entries = entries or await drive.work("again")
    entry = entries[-1]
    assert entry.fields[b"m"].decode() == again.msg_id
    assert (await drive.decide(entry, TO_AGENT)).verdict == "done"
    (third,) = await drive.take("i2", free=1)
    assert (third.msg_id, third.attempt) == (failed.msg_id, 3)


async def test_B113_low_has_its_share_while_high_never_ends(drive: Drive) -> None:
    await backlog(drive, 30, lane="low")
    await backlog(drive, 200, lane="high")
    lanes = Counter(await served(drive, 80))
    assert (lanes["low"], lanes["high"]) == (10, 70)


async def test_B113_an_agent_with_one_slot_runs_high_next() -> None:
    ran: list[int] = []
    agent = Agent("worker", concurrency=1)

    @agent.capability("work")
    async def work(body: int) -> None:
        ran.append(body)
        await asyncio.sleep(0)

    async with TestReach(agent) as bus:
        low = [await bus.send("work", n, priority=1) for n in range(200)]
        high = [await bus.send("work", 1_000 + n, priority=10) for n in range(10)]
        await bus.advance(25)
        assert len(ran) == len(low) + len(high)
        first, last = (ran.index(1_000 + n) for n in (0, 9))
        assert last - first <= 11, "once there, they are not held up by low"


# ---------------------------------------------------------------- B115: many who are cut off

#: as a share of the mean: about 0.1 where each pause is drawn from the half to the whole of what it may be, 0 of equal ones
LEAST_SPREAD = 0.04
#: whether a task belongs to a client
_CLIENT: ContextVar[bool] = ContextVar("client", default=False)


class Pauses:
    """When each task of the clients would have tried again had nothing but its own pauses held it up.

    A machine that stalls lets what was due meanwhile come at once; what was planned it cannot move together.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        #: name of a task, number of its try -> the moments of the clients
        self.planned_ms: dict[tuple[str, int], list[int]] = defaultdict(list)
        self._so_far: dict[asyncio.Task[Any], tuple[int, int]] = {}
        self.noting = False
        sleep = SystemClock.sleep

        async def noted(clock: SystemClock, ms: int) -> None:
            task = asyncio.current_task()
            if self.noting and ms > 0 and task is not None and _CLIENT.get():
                number, at_ms = self._so_far.get(task, (0, 0))
                self._so_far[task] = number + 1, at_ms + ms
                self.planned_ms[task.get_name(), number].append(at_ms + ms)
            await sleep(clock, ms)

        monkeypatch.setattr(SystemClock, "sleep", noted)

    def spreads(self, clients: int) -> dict[tuple[str, int], float]:
        """How far apart most clients plan the same try of the same task, of those from one to two seconds after the beginning."""
        told = {which: at_ms for which, at_ms in self.planned_ms.items() if len(at_ms) > clients / 2}
        return {which: pstdev(at_ms) / mean(at_ms) for which, at_ms in told.items() if 1_000 < mean(at_ms) < 2_000}


async def client(url: str, stack: AsyncExitStack) -> Reach:
    """A client whose tasks are known as such."""
    own = _CLIENT.set(True)
    try:
        return await stack.enter_async_context(Reach.connect(url))
    finally:
        _CLIENT.reset(own)


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("clients", "away_s"), [(30, 3.0), pytest.param(200, 15.0, marks=[pytest.mark.long, pytest.mark.timeout(300)])]
)
async def test_B115_many_who_are_cut_off_ask_in_pace_and_apart_and_say_little(
    server: PrivateServer, raw: redis.asyncio.Redis, clients: int, away_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses = Pauses(monkeypatch)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(router(server.url))
        await stack.enter_async_context(echo_agent("echo-1").running(server.url, grace=0))
        proxy = await stack.enter_async_context(FaultProxy(server.port))
        reaches = [await client(proxy.url, stack) for _ in range(clients)]
        lines = stack.enter_context(listening())
        pauses.noting = True
        proxy.refuse()
        proxy.reset()
        began = time.monotonic()
        await wait_until(lambda: time.monotonic() - began >= away_s, timeout=away_s + 5)
        tried = [at_s - began for at_s in proxy.turned_away_s]
        pauses.noting = False
        said = len(lines.said)
        proxy.heal()
        receipts = await asyncio.gather(
            *(reach.request("echo", n, timeout=10 + away_s) for n, reach in enumerate(reaches))
        )
        assert [receipt.output for receipt in receipts] == list(range(clients))
        again = await asyncio.gather(
            *(reach.request("echo", n, timeout=10 + away_s) for n, reach in enumerate(reaches))
        )
        assert [receipt.output for receipt in again] == list(range(clients)), "no second stall"
        # A client has a handful of tasks that read or write; each pauses from 100 ms up to a second between two attempts.
        assert clients < len(tried) < clients * (10 + 8 * away_s)
        spreads = pauses.spreads(clients)
        assert spreads
        assert min(spreads.values()) > LEAST_SPREAD, f"they move in step: {spreads}"
        assert said <= clients * away_s


# ---------------------------------------------------------------- B117: much that is pending
SWEEPERS = 10
#: 10 ms
MOST_US = 10_000


@pytest.mark.leaves_work(why="nobody answers what is pending")
@pytest.mark.leaves(".*inbox:.*", why="the entries are junk of the test")
@pytest.mark.parametrize("count", [20_000, pytest.param(200_000, marks=LONG)])
async def test_B117_however_much_is_pending_no_sweep_holds_up_the_server(
    redis_url: str, raw: redis.asyncio.Redis, count: int
) -> None:
    backends = [open_backend(redis_url, env=ENV) for _ in range(SWEEPERS)]
    for backend in backends:
        await backend.open()
    await backends[0].open_inbox(0, AGENT)
    key = KEYS.inbox(0, AGENT, "normal")
    for start in range(0, count, 1_000):
        pipe = raw.pipeline(transaction=False)
        for n in range(start, start + 1_000):
            pipe.xadd(key, {"m": f"00000000-0000-4000-8000-{n:012}", "l": "0"})
        await pipe.execute()
        await raw.xreadgroup(GROUP_AGENT, f"dead-{start // 1_000 % 7}", {key: ">"}, count=1_000)
    entries: Any = await raw.xrevrange(key, count=100)
    hands = [entry_id.decode() for entry_id, _ in entries]
    await raw.config_resetstat()

    async def sweep_all(number: int) -> None:
        backend = backends[number]
        for _ in range(3):
            await backend.due(0)
            await backend.sweep(0, AGENT)
            await backend.claim_work(f"w{number}", 0, 5_000)
            await backend.renew(0, AGENT, f"i{number}", {"normal": hands})
            await backend.take(0, AGENT, f"i{number}", 10, [])
            await backend.close_inbox(0, AGENT)
            await raw.ping()

    await asyncio.gather(*map(sweep_all, range(SWEEPERS)))
    stats = await raw.info("commandstats")
    slow = {
        name: row["usec_per_call"]
        for name, row in stats.items()
        if row["usec_per_call"] > MOST_US and row["calls"] >= SWEEPERS
    }
    assert not slow, slow
    assert (await raw.xpending(key, GROUP_AGENT))["pending"] == count, "all of it is younger than a lease"
    for backend in backends:
        await backend.close()
