"""TIME: pauses that grow without end, clocks that are wrong, a clock that steps back under load."""

import asyncio
import itertools
import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reach import Agent
from reach.backend.memory_backend import MemoryBackend
from reach.backend.port import Backend
from reach.backend.steps import Plan
from reach.delivery.retry import BACKOFF_MS, MAX_JITTER, backoff_ms, retry_of
from reach.envelope.ledger import Leg, LegState
from reach.errors import BackendUnavailable
from reach.ids import stream_id
from reach.service import MAX_PAUSE_MS, Supervisor, pause_ms, until_open
from reach.testing import FaultyBackend, ManualClock, TestReach
from tests.contract.drive import Drive, success
from tests.faults.crash_world import CrashWorld
from tests.unit.sdk.shops import agent_with

# ---------------------------------------------------------------- B091: pauses that grow without end

MANY = 1_000_000
COUNTS = st.integers(0, MANY) | st.integers(0, 10**30)


@given(count=COUNTS, seed=st.integers(0, 1_000))
def test_B091_no_pause_is_longer_than_its_cap_for_any_number_of_failures(count: int, seed: int) -> None:
    assert 0 < pause_ms(count, random.Random(seed)) <= MAX_PAUSE_MS
    assert 0 < backoff_ms(count, MAX_JITTER) <= BACKOFF_MS[-1] * MAX_JITTER
    waits = Leg(LegState.RETURNED, attempt=0, returns=count, core='{"code":"handler.retry"}', wait_ms=0)
    found = retry_of(waits, max_attempts=10, total_at_ms=10**15, now_ms=0, jitter=MAX_JITTER)
    assert 0 < found.wait_ms <= 1_000


def test_B091_every_count_from_none_to_a_million_has_a_pause() -> None:
    rng = random.Random(1)
    steps = [*range(2_000), *range(2_000, MANY + 1, 997), MANY]
    assert max(pause_ms(count, rng) for count in steps) <= MAX_PAUSE_MS
    assert max(backoff_ms(count, MAX_JITTER) for count in steps) <= BACKOFF_MS[-1] * MAX_JITTER


class Away:
    """A service whose server is away until it is let."""

    name, interval_ms = "away", 1_000

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.is_there = False
        self.tried_at_ms: list[int] = []

    async def run_once(self) -> dict[str, int]:
        self.tried_at_ms.append(self.clock.monotonic_ms())
        if not self.is_there:
            raise BackendUnavailable("away")
        return {}


THREE_HOURS_MS = 3 * 3_600_000


async def pass_time(clock: ManualClock, ms: int) -> None:
    """With everything that follows from each timer, before the next."""
    end_ms = clock.monotonic_ms() + ms
    while (at_ms := clock.next_at_ms) is not None and at_ms <= end_ms:
        clock.advance(max(at_ms - clock.monotonic_ms(), 0))
        for _ in range(5):
            await asyncio.sleep(0)  # a turn of the loop: no time passes here but the clock's
    clock.advance(end_ms - clock.monotonic_ms())


async def test_B091_a_service_tries_for_three_hours_and_begins_anew_after_success() -> None:
    clock = ManualClock()
    service = Away(clock)
    async with Supervisor([service], clock=clock, rng=random.Random(1)) as supervisor:
        await asyncio.sleep(0)
        await pass_time(clock, THREE_HOURS_MS)
        gaps = [later - earlier for earlier, later in itertools.pairwise(service.tried_at_ms)]
        assert max(gaps) <= MAX_PAUSE_MS
        assert len(gaps) > 10_000
        assert supervisor.vitals["away"].failures > 10_000
        service.is_there = True
        await pass_time(clock, MAX_PAUSE_MS)
        assert supervisor.vitals["away"].failures == 0
        service.is_there = False
        before = len(service.tried_at_ms)
        await pass_time(clock, 2_000)
        first, second = service.tried_at_ms[before : before + 2]
        assert second - first <= 100  # the first pause, not the last one


async def test_B091_a_server_that_comes_after_three_hours_is_opened() -> None:
    clock, tried = ManualClock(), 0

    async def open_it() -> None:
        nonlocal tried
        tried += 1
        if clock.monotonic_ms() < THREE_HOURS_MS:
            raise BackendUnavailable("away")

    waiting = asyncio.ensure_future(until_open(open_it, clock=clock, rng=random.Random(1), told={}))
    await asyncio.sleep(0)
    await pass_time(clock, THREE_HOURS_MS + MAX_PAUSE_MS)
    assert await waiting is True
    assert tried > 10_000


@pytest.mark.parametrize("minutes", [10, pytest.param(180, marks=pytest.mark.long)])
async def test_B091_redis_is_away_for_hours_and_everybody_is_back_at_once(minutes: int) -> None:
    """Router, agent, client, each with every loop that it has, on a memory that answers nobody for so long."""
    async with Weather(agent_with(lambda: "done")) as bus:
        assert (await _asked(bus)).output == "done"
        bus.away = True
        before = sum(bus.tries.values())
        await pass_time(bus.clock, minutes * 60_000)
        tries = sum(bus.tries.values()) - before
        # Every loop lives: at least one try a second of each; and none is hot.
        assert {step for step, count in bus.tries.items() if count > 55 * minutes} >= {
            "own_work",
            "due",
            "beat",
            "read_mail",
            "take",
        }
        assert tries < 20 * 60 * minutes
        bus.away = False
        await bus.advance(2)
        assert (await _asked(bus)).output == "done"


class Weather(TestReach):
    """A bus whose memory can be away."""

    away = False

    def __init__(self, *agents: Agent) -> None:
        self.tries: Counter[str] = Counter()
        super().__init__(*agents)

    def _make(self) -> Backend:
        self.newest = FaultyBackend(
            MemoryBackend(env=self.place.env, store=self.store, before_step=self._met), self._watch
        )
        return self.newest.backend

    def _met(self, step: str) -> None:
        if self.away:
            self.tries[step] += 1
            raise BackendUnavailable(f"{step}: away")


async def _asked(bus: TestReach) -> Any:
    handle = await bus.send("work")
    await bus.advance(3)
    return await handle.receipt(0)


# ---------------------------------------------------------------- B092: the clock of one machine is wrong

WRONG_MS = [-120_000, 120_000]
DELAY_S, TTL_S, TOTAL_S = 5, 1.5, 4
SLACK_MS = 250


@pytest.mark.parametrize("wrong_ms", WRONG_MS)
@pytest.mark.parametrize("who", ["client", "router", "a1"])
async def test_B092_a_clock_that_is_two_minutes_wrong_delays_nothing_and_ends_nothing(
    world: CrashWorld, who: str, wrong_ms: int
) -> None:
    world.skews = {"client": 0, "router": 0, "a1": 0} | {who: wrong_ms}
    await world.router()
    await world.agent("a1")
    await world.client()
    begun_ms = world.clock.monotonic_ms()
    later = world.ask({"do": "ok"}, delay=DELAY_S)
    later.total_ms += DELAY_S * 1000
    await world.until(lambda: world.history.runs, "the start of what was to start later")
    assert 0 <= world.clock.monotonic_ms() - begun_ms - DELAY_S * 1000 <= 100

    again = world.ask({"do": "wait once"})
    await world.until(lambda: again.over, "an answer after the wait of 2 s")
    assert again.codes == ["ok"]

    begun_ms = world.clock.monotonic_ms()
    hanging = world.ask({"do": "hang"}, timeout=TOTAL_S)
    await world.until(lambda: hanging.over, "the end by its total")
    assert hanging.codes == ["timeout.total"]
    assert 0 <= world.clock.monotonic_ms() - begun_ms - TOTAL_S * 1000 <= SLACK_MS

    world.heirs.pop("a1")
    world.processes["a1"].die()
    begun_ms = world.clock.monotonic_ms()
    expiring = world.ask({"do": "ok"}, "agent_id:a1", ttl=TTL_S)
    await world.until(lambda: expiring.over, "the end by its ttl")
    assert expiring.codes == ["ttl.expired"]
    assert 0 <= world.clock.monotonic_ms() - begun_ms - TTL_S * 1000 <= SLACK_MS
    await world.finish()


# ---------------------------------------------------------------- B095: the clock of the server steps back under load


@pytest.mark.parametrize("back_ms", [1_000, 60_000])
async def test_B095_the_servers_clock_steps_back_under_load_and_everything_is_answered_once(
    world: CrashWorld, back_ms: int
) -> None:
    await world.router()
    await world.agent("a1")
    await world.agent("a2")
    await world.client()
    ids: dict[str, list[str]] = {}
    for round_ in range(12):
        for _ in range(4):
            world.ask({"do": "sleep", "ms": 300}, timeout=300)
        if round_ == 5:
            await world.stage.pass_time(-back_ms)
        await world.advance(500)
        for key in await world.place.keys():
            if any(name in key for name in (":inbox:", ":mail:", ":ingress:", ":again", ":control")):
                ids.setdefault(key, []).extend(i for i, _ in await world.place.entries(key))
    await world.until(lambda: all(call.over for call in world.calls), "an answer for every caller", 200_000)
    assert {code for call in world.calls for code in call.codes} == {"ok"}
    assert len(world.history.runs) == len({msg_id for msg_id, _ in world.history.runs}) == 48
    for key, seen in ids.items():
        fresh = list(dict.fromkeys(seen))
        assert fresh == sorted(fresh, key=stream_id), key  # what came later lies behind what came before
    await world.finish()


async def test_B095_what_is_written_after_the_step_lies_behind_what_was_before(drive: Drive) -> None:
    """Every id is made by the server: none is refused, and readers that were there already see it."""
    first = await drive.sent()
    (taken,) = await drive.take()
    await drive.place.pass_time(-60_000)
    second = await drive.sent(Plan("deliver", "a1"))
    assert await drive.settle(taken, success()) == "done"
    assert [one.msg_id for one in await drive.take()] == [second]
    assert [receipt["msg_id"] for receipt in await drive.receipts()] == [first]
