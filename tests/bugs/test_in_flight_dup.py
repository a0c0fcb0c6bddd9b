"""IN-FLIGHT-DUP: nothing is taken from who works on it, however long that takes, and waiting is not working."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from reach import Agent, Context, Reach, Retry
from reach.backend import Backend
from reach.backend.keys import GROUP_AGENT, LANES
from reach.backend.steps import DueEvent, Settlement
from reach.testing import wait_until
from tests.contract.drive import AGENT, Drive, success
from tests.contract.places import KEYS
from tests.envelopes import raw
from tests.faults.crash_world import CrashWorld
from tests.faults.handlers import Handler
from tests.faults.history import History
from tests.faults.process import Process
from tests.integration.sdk.world import router

LEASE_S, RENEW_S = 15, 5
SWEEP_S = 0.01
REQUESTS = 1_000
AT_ONCE = 50
PLAIN = 20


class Overlap:
    """Makes handlers that sleep as long as the message says, and counts how many run one message at the same time."""

    def __init__(self) -> None:
        self.running: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.starts: Counter[str] = Counter()

    def make(self, process: Process, history: History) -> Handler:
        async def work(body: dict[str, Any], ctx: Context) -> int:
            self.starts[ctx.msg_id] += 1
            self.running[ctx.msg_id] += 1
            self.most[ctx.msg_id] = max(self.most[ctx.msg_id], self.running[ctx.msg_id])
            try:
                if self.starts[ctx.msg_id] == 1 and "retry_s" in body:
                    raise Retry(after=body["retry_s"])
                await process.clock.sleep(body["s"] * 1000)
                return ctx.attempt
            finally:
                self.running[ctx.msg_id] -= 1

        return work


async def staffed(world: CrashWorld, **declared: Any) -> Overlap:
    """A router, one instance of one agent, a client."""
    overlap = Overlap()
    await world.router()
    await world.agent("a1", make=overlap.make, **declared)
    await world.client()
    return overlap


async def held(world: CrashWorld) -> int:
    """How many entries are pending in the inbox of a1."""
    return sum([len(await world.place.pending(KEYS.inbox(0, "a1", lane), GROUP_AGENT)) for lane in LANES])


async def started_once(world: CrashWorld, seconds: int) -> None:
    overlap = await staffed(world, max_process=seconds + 60)
    calls = [world.ask({"s": seconds}) for _ in range(4)]
    for call in calls:
        call.total_ms = (seconds + 60) * 1000  # what the agent declares raises what the caller has not said
    await world.until(lambda: all(call.over for call in calls), "an answer for every caller", (seconds + 120) * 1000)
    assert [call.task.result().output for call in calls] == [1] * 4
    assert list(overlap.starts.values()) == [1] * 4
    await world.finish()


async def test_B021_a_handler_that_runs_three_leases_long_is_started_once(world: CrashWorld) -> None:
    await started_once(world, 3 * LEASE_S)


@pytest.mark.parametrize("minutes", [2, pytest.param(10, marks=pytest.mark.long)])
async def test_B024_a_handler_that_runs_for_minutes_is_started_once(world: CrashWorld, minutes: int) -> None:
    await started_once(world, minutes * 60)


async def test_B024_with_nothing_declared_a_long_handler_is_ended_before_it_is_started_again(world: CrashWorld) -> None:
    overlap = await staffed(world)
    call = world.ask({"s": 600})
    await world.until(lambda: call.over, "an answer")
    await world.finish()
    await world.advance(RENEW_S * 1000)
    assert call.codes == ["timeout.total"]
    assert set(overlap.most.values()) == {1}
    assert not +overlap.running
    assert max(overlap.starts.values()) == 2  # 30 s in all, 15 s without a sign of life


async def test_B023_a_retry_that_waits_four_leases_is_held_by_nobody_and_started_once(world: CrashWorld) -> None:
    overlap = await staffed(world)
    call = world.ask({"s": 0, "retry_s": 4 * LEASE_S}, timeout=10 * LEASE_S)
    await world.until(lambda: sum(overlap.starts.values()) == 1, "the first run")
    for _ in range(3):
        await world.advance(LEASE_S * 1000)
        assert await held(world) == 0
        assert sum(overlap.starts.values()) == 1
    await world.until(lambda: call.over, "an answer")
    assert (call.task.result().output, sum(overlap.starts.values())) == (1, 2)
    await world.finish()


async def test_B023_what_is_to_be_delivered_in_four_leases_is_held_by_nobody_and_started_once(
    world: CrashWorld,
) -> None:
    overlap = await staffed(world)
    made = raw(
        target={"pattern": "agent_id:a1"},
        reply_to=world.mailbox,
        payload={"body": {"s": 0}},
        not_before=await world.stage.eye.now_ms() + 4 * LEASE_S * 1000,
    )
    await world.place.append(KEYS.ingress(0, "normal"), {"e": made})
    for _ in range(3):
        await world.advance(LEASE_S * 1000)
        assert await held(world) == 0
        assert not overlap.starts
    await world.advance(LEASE_S * 1000 + 1_000)
    assert list(overlap.starts.values()) == [1]
    await world.advance(2 * LEASE_S * 1000)
    assert list(overlap.starts.values()) == [1]


async def test_B021_a_thread_that_nobody_can_stop_is_joined_by_no_second_run(redis_url: str) -> None:
    """The run is over for the ledger after half a second, and the handler goes on for two more."""
    agent = Agent("slow", max_process=0.5)
    running: list[int] = []
    most: list[int] = []

    @agent.capability("work")
    def work(ctx: Context) -> int:
        running.append(ctx.attempt)
        most.append(len(running))
        if ctx.attempt == 1:
            time.sleep(2.5)  # the load that is tried: a thread that nothing can stop, past its processing time
        running.remove(ctx.attempt)
        return ctx.attempt

    async with router(redis_url), agent.running(redis_url, grace=0), Reach.connect(redis_url) as reach:
        receipt = await reach.request("capability:work", timeout=15)
    assert (receipt.code, receipt.output, receipt.attempts) == ("ok", 2, 2)
    assert most == [1, 1]


class Sweeps:
    """`due` every 10 ms by somebody else: how often, and what it took from anybody."""

    def __init__(self) -> None:
        self.count = 0
        self.taken: list[DueEvent] = []


@asynccontextmanager
async def sweeping(backend: Backend) -> AsyncIterator[Sweeps]:
    sweeps, stop = Sweeps(), asyncio.Event()

    async def sweep() -> None:
        while not stop.is_set():
            sweeps.taken += [event for event in (await backend.due(0)).events if event.what != "again"]
            sweeps.count += 1
            await asyncio.sleep(SWEEP_S)

    task = asyncio.create_task(sweep())
    try:
        yield sweeps
    finally:
        stop.set()
        await task


async def test_B027_a_sweep_every_10_ms_takes_nothing_from_who_has_just_begun(redis_url: str) -> None:
    runs: Counter[str] = Counter()
    agent = Agent("quick", concurrency=32)

    @agent.capability("work")
    async def work(ctx: Context) -> int:
        runs[ctx.msg_id] += 1
        return ctx.attempt

    async with (
        router(redis_url),
        agent.running(redis_url, grace=0),
        Reach.connect(redis_url) as reach,
        sweeping(reach.backend) as sweeps,
    ):
        receipts = []
        for _ in range(0, REQUESTS, AT_ONCE):
            receipts += await asyncio.gather(*(reach.request("capability:work") for _ in range(AT_ONCE)))
    assert [receipt.output for receipt in receipts] == [1] * REQUESTS
    assert list(runs.values()) == [1] * REQUESTS
    assert sweeps.count > 10
    assert sweeps.taken == []


async def test_B027_who_reads_without_scripts_has_its_lease_before_the_ledger_knows_of_it(drive: Drive) -> None:
    """Its entries are pending, and the ledger says that they wait; their network time is over at once."""
    await drive.past_grace()
    async with sweeping(drive.backend) as sweeps:
        sent = [await drive.sent(network_ms=1) for _ in range(PLAIN)]
        inbox = KEYS.inbox(0, AGENT, "normal")
        hands = await drive.place.read_plain(inbox, GROUP_AGENT, "i1", PLAIN)
        begun = sweeps.count
        await wait_until(lambda: sweeps.count > begun + PLAIN, 20)
        done = [Settlement(msg_id, 0, hand, success(), "i1") for msg_id, hand in zip(sent, hands, strict=True)]
        assert await drive.backend.settle(0, AGENT, done) == ["done"] * PLAIN
    assert {receipt["attempts"] for receipt in await drive.receipts()} == {1}
    assert sweeps.taken == []
