"""delay and not_before: a message that is handed over later, by the clock of Redis."""

import asyncio
import datetime as dt
from typing import Any

import pytest

from reach import Agent, Context
from reach.errors import BackendUnavailable
from reach.testing import TestReach

UTC = dt.UTC


def clock_agent(runs: list[int], bus: list[TestReach]) -> Agent:
    """Writes down when it ran, in ms of the one clock."""
    agent = Agent("clock")

    @agent.capability("ring")
    async def ring(body: Any) -> Any:
        runs.append(bus[0].clock.wall_ms())
        return body

    return agent


async def test_it_is_handed_over_after_its_delay_and_not_before() -> None:
    runs: list[int] = []
    buses: list[TestReach] = []
    async with TestReach(clock_agent(runs, buses)) as bus:
        buses.append(bus)
        start_ms = bus.clock.wall_ms()
        await bus.send("ring", delay=90)
        await bus.advance(100)
    assert [90_000 <= at_ms - start_ms < 91_500 for at_ms in runs] == [True]


async def test_a_moment_may_be_named() -> None:
    runs: list[int] = []
    buses: list[TestReach] = []
    async with TestReach(clock_agent(runs, buses)) as bus:
        buses.append(bus)
        now_s = bus.clock.wall_ms() / 1000
        await bus.send("ring", not_before=now_s + 30)
        await bus.send("ring", not_before=dt.datetime.fromtimestamp(now_s + 60, UTC))
        await bus.send("ring", not_before=now_s - 3_600)  # in the past: at once
        await bus.advance(100)
        after_s = [at_ms / 1000 - now_s for at_ms in runs]
    assert after_s[0] < 1
    assert 30 <= after_s[1] < 31.5
    assert 60 <= after_s[2] < 61.5


async def test_request_waits_for_it_and_every_timeout_counts_from_then() -> None:
    runs: list[int] = []
    buses: list[TestReach] = []
    async with TestReach(clock_agent(runs, buses)) as bus:
        buses.append(bus)
        on_time = await bus.send("ring", 7, delay=120, timeout=5, ttl=5)
        nobody = await bus.send("agent_id:nobody", delay=120, timeout=5)
        await bus.advance(119)
        assert not runs
        assert (await on_time.status()).state == "open"
        await bus.advance(7)
        assert (await on_time.receipt(0)).output == 7
        assert (await nobody.receipt(0)).code == "route.not_found"


async def test_a_broadcast_goes_to_all_who_were_there_when_it_was_sent() -> None:
    runs: list[tuple[str, int]] = []
    buses: list[TestReach] = []

    def member(name: str) -> Agent:
        agent = Agent(name, groups=("crew",))

        @agent.on("shift.ends")
        async def ends() -> None:
            runs.append((name, buses[0].clock.wall_ms()))

        return agent

    one, two, gone = member("one"), member("two"), member("gone")
    async with TestReach(one, two, gone) as bus:
        buses.append(bus)
        start_ms = bus.clock.wall_ms()
        handle = await bus.send("group:crew", type="shift.ends", scope="all", delay=90)
        await bus.advance(1)
        assert len((await handle.status()).legs) == 3
        await bus.kill(gone)
        await bus.start(member("late"))
        await bus.advance(100)
        codes = {receipt.target_agent: receipt.code for receipt in await handle.receipts(0)}
    assert codes == {"one": "ok", "two": "ok", "gone": "agent.lost"}
    assert sorted(name for name, _ in runs) == ["one", "two"]
    assert all(90_000 <= at_ms - start_ms < 91_500 for _, at_ms in runs)


async def test_a_broadcast_for_nobody_waits_as_one_leg_for_who_comes() -> None:
    runs: list[int] = []
    buses: list[TestReach] = []
    async with TestReach() as bus:
        buses.append(bus)
        start_ms = bus.clock.wall_ms()
        handle = await bus.send("capability:ring", 7, scope="all", delay=90)
        await bus.advance(5)
        await bus.start(clock_agent(runs, buses))
        await bus.advance(100)
        assert [receipt.output for receipt in await handle.receipts(0)] == [7]
    assert [90_000 <= at_ms - start_ms < 91_500 for at_ms in runs] == [True]


async def test_it_outlives_its_sender() -> None:
    """What is to happen later was accepted, and is nobody's any more but the ledger's."""
    runs: list[int] = []
    buses: list[TestReach] = []
    async with TestReach(clock_agent(runs, buses)) as bus:
        buses.append(bus)
        await bus.send("ring", delay=60)
        await bus.reach.close()
        await bus.advance(62)
    assert len(runs) == 1


async def test_a_handler_may_send_what_outlives_it() -> None:
    runs: list[int] = []
    buses: list[TestReach] = []
    planner = Agent("planner")

    @planner.capability("plan")
    async def plan(ctx: Context) -> None:
        await ctx.send("ring", delay=60)

    async with TestReach(clock_agent(runs, buses), planner) as bus:
        buses.append(bus)
        start_ms = bus.clock.wall_ms()
        assert (await bus.request("plan", timeout=5)).ok
        await bus.advance(70)
    assert [60_000 <= at_ms - start_ms < 61_500 for at_ms in runs] == [True]


async def test_it_can_be_cancelled_until_then() -> None:
    runs: list[int] = []
    buses: list[TestReach] = []
    async with TestReach(clock_agent(runs, buses)) as bus:
        buses.append(bus)
        handle = await bus.send("ring", delay=60)
        await bus.advance(30)
        await handle.cancel()
        await bus.advance(60)
        assert (await handle.receipt(0)).code == "cancelled"
    assert runs == []


async def test_an_unknown_outcome_is_sent_again_with_the_same_moment() -> None:
    runs: list[int] = []
    buses: list[TestReach] = []
    async with TestReach(clock_agent(runs, buses)) as bus:
        buses.append(bus)
        start_ms = bus.clock.wall_ms()
        bus.client_backend.fail("submit", before=False, error=BackendUnavailable("swallowed"))
        task = asyncio.ensure_future(bus.send("ring", delay=10))
        await bus.advance(20)
        await task
        assert len({envelope.not_before for envelope in bus.sent}) == 1
        assert len(bus.sent) == 2
    assert [10_000 <= at_ms - start_ms < 11_500 for at_ms in runs] == [True]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"delay": -1}, "delay is"),
        ({"delay": 8 * 24 * 3600}, "delay is"),
        ({"delay": "soon"}, "delay is"),
        ({"delay": 1, "not_before": 1}, "two ways"),
        ({"not_before": dt.datetime(2026, 1, 1)}, "no time zone"),  # noqa: DTZ001 - that is what is refused
        ({"not_before": 1_700_000_000_000}, "Unix seconds"),
        ({"not_before": -1}, "Unix seconds"),
        ({"not_before": True}, "Unix seconds"),
    ],
)
async def test_what_is_no_moment_is_refused_in_one_sentence(options: dict[str, Any], said: str) -> None:
    async with TestReach() as bus:
        with pytest.raises(ValueError, match=said):
            await bus.send("ring", **options)
        assert bus.reach.outstanding == 0
