"""Agents that learn and forget while they run, and versions that replace one another: nobody is sent what it cannot do."""

import asyncio
from typing import Any

import pytest

from reach import Agent, Context, RegistrationRefused
from reach.sdk.agent import CONFLICT_WAIT_MS
from reach.testing import TestReach
from tests.unit.sdk.shops import agent_with, beat_of, run_of


async def work() -> str:
    return "work"


async def more() -> str:
    return "more"


async def code_of(bus: TestReach, target: str, seconds: float = 4) -> str:
    task = asyncio.create_task(bus.request(target))
    await bus.advance(seconds)
    return (await task).code


async def test_one_that_is_alone_offers_it_at_once_and_takes_it_back_at_once() -> None:
    agent = agent_with(work)
    assert await agent.add_capability("before", more) is True  # nobody runs yet
    async with TestReach(agent) as bus:
        assert await agent.add_capability("more", more) is True
        assert await bus.ask("capability:more") == "more"
        await agent.remove_capability("more")
        assert await code_of(bus, "capability:more") == "route.not_found"
        assert await bus.ask("capability:before") == "more"
        assert await agent.add_capability("more", work) is True
        assert await bus.ask("capability:more") == "work"
    with pytest.raises(ValueError, match="two handlers"):
        await agent.add_capability("more", more)
    with pytest.raises(ValueError, match="no capability 'never'"):
        await agent.remove_capability("never")


async def test_of_two_schemas_one_is_taken_back() -> None:
    agent = Agent("one")
    agent.capability("work", schema="work.v1")(work)
    agent.capability("work", schema="work.v2")(more)
    async with TestReach(agent) as bus:
        with pytest.raises(ValueError, match=r"with schema 'work.v3'"):
            await agent.remove_capability("work", schema="work.v3")
        await agent.remove_capability("work", schema="work.v1")
        assert await bus.ask("work", schema="work.v2") == "more"
        assert await code_of_schema(bus, "work.v1") == "route.no_candidate"


async def code_of_schema(bus: TestReach, schema: str) -> str:
    task = asyncio.create_task(bus.request("work", schema=schema, timeout=3))
    await bus.advance(4)
    return (await task).code


async def test_what_has_come_before_it_was_taken_back_is_still_handled() -> None:
    go = asyncio.Event()
    agent = Agent("one", concurrency=1)

    @agent.capability("slow")
    async def slow() -> None:
        await go.wait()

    agent.capability("more")(more)
    async with TestReach(agent) as bus:
        await bus.send("capability:slow")
        waiting = await bus.send("capability:more")
        await bus.settle()
        await agent.remove_capability("more")
        go.set()
        await bus.advance(1)
        assert (await waiting.receipt(0)).output == "more"


async def test_a_capability_that_is_refused_is_taken_back() -> None:
    agent = agent_with(work)
    async with TestReach(agent) as bus:
        await bus.reach.backend.set_meta("meta", "require_token", b"1")
        await bus.settle()
        with pytest.raises(RegistrationRefused):
            await agent.add_capability("more", more)
        with pytest.raises(RegistrationRefused):
            await agent.remove_capability("work")
        await bus.reach.backend.set_meta("meta", "require_token", None)
        assert await code_of(bus, "capability:more") == "route.not_found"
        assert await bus.ask("work") == "work"
        before = (await beat_of(bus, agent))["declares"]
        assert await agent.add_capability("more", more) is True
        await bus.advance(6)
        assert (await beat_of(bus, agent))["declares"] != before


async def test_what_is_refused_is_taken_back_by_all_instances_of_this_process() -> None:
    """One that went on saying in its beats that it can do more would keep its likes from agreeing on anything."""
    agent = agent_with(work)
    async with TestReach(agent, agent) as bus:
        assert len(agent.instances) == 2
        await bus.reach.backend.set_meta("meta", "require_token", b"1")
        await bus.settle()
        with pytest.raises(RegistrationRefused):
            await agent.add_capability("more", more)
        assert all(run.membership.wanted is run.membership.registration for run in agent.instances)
        with pytest.raises(RegistrationRefused):
            await agent.remove_capability("work")
        assert all(run.membership.wanted is run.membership.registration for run in agent.instances)


async def test_replicas_learn_one_by_one_and_it_is_offered_when_all_of_them_can() -> None:
    one, two, three = (agent_with(work) for _ in range(3))
    async with TestReach(one, two, three) as bus:
        assert await one.add_capability("more", more) is False
        assert await two.add_capability("more", more) is False
        assert await code_of(bus, "capability:more") == "route.not_found"
        assert await bus.ask("work") == "work"
        assert await three.add_capability("more", more) is True
        assert await bus.ask("capability:more") == "more"
        await bus.advance(6)
        assert all(run_of(agent).membership.agreed for agent in (one, two, three))
        assert {run_of(agent).membership.registration.declares for agent in (one, two, three)} == {
            (await beat_of(bus, one))["declares"]
        }


async def test_who_cannot_do_it_leaves_and_it_is_offered() -> None:
    one, two = agent_with(work), agent_with(work)
    async with TestReach(one) as bus:
        async with two.running_at(bus.place, grace=0) as run:
            assert await one.add_capability("more", more) is False
            await run.stop(0)
        await bus.advance(6)
        assert await bus.ask("capability:more") == "more"


async def test_two_instances_of_one_process_learn_together() -> None:
    agent = agent_with(work)
    async with TestReach(agent) as bus:
        await bus.start(agent)
        assert await agent.add_capability("more", more) is True
        await bus.advance(6)
        assert all(run.membership.agreed for run in agent.instances)


async def test_a_flush_while_replicas_wait_for_one_another_harms_nobody() -> None:
    one, two = agent_with(work), agent_with(work)
    async with TestReach(one, two) as bus:
        assert await one.add_capability("more", more) is False
        bus.store.clear()
        await bus.advance(12)
        assert not run_of(one).membership.refused.done()
        assert not run_of(two).membership.refused.done()
        assert await bus.ask("work") == "work"
        await two.add_capability("more", more)
        await bus.advance(6)
        assert await bus.ask("capability:more") == "more"
        bus.store.clear()
        await bus.advance(12)
        assert await bus.ask("capability:more") == "more"


async def test_a_flush_while_a_younger_version_waits_for_the_old_one_harms_nobody() -> None:
    old, younger = agent_with(work), agent_with(work)
    younger.capability("more")(more)
    async with TestReach(old, younger) as bus:
        bus.store.clear()
        run_of(younger).membership.forgotten()  # it is the first to notice
        await bus.advance(12)
        assert not run_of(old).membership.refused.done()
        assert not run_of(younger).membership.agreed
        assert await bus.ask("work") == "work"


# ---------------------------------------------------------------- one version replaces another


async def new() -> str:
    return "new"


def version_two(**options: Any) -> Agent:
    """It has another capability instead."""
    agent = Agent("one", **options)
    agent.capability("newer")(new)
    return agent


async def test_a_version_that_can_do_more_works_at_once_and_offers_it_when_the_old_ones_are_gone() -> None:
    old, younger = agent_with(work), agent_with(work, weight=3)
    younger.capability("more")(more)
    async with TestReach() as bus, old.running_at(bus.place, grace=0) as run:
        await bus.start(younger)
        assert len((await bus.reach.backend.registration("one"))[1]) == 2
        assert await code_of(bus, "capability:more") == "route.not_found"
        await run.stop(0)
        await bus.advance(6)
        assert await bus.ask("capability:more") == "more"
        assert run_of(younger).membership.agreed


async def test_another_version_waits_until_the_old_one_drains_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    go = asyncio.Event()

    async def slow(ctx: Context) -> str:
        await go.wait()
        return "old"

    old, younger = agent_with(slow), version_two()
    async with TestReach(old) as bus:
        run = younger.new_run(bus.place)
        starting = asyncio.create_task(run.start(CONFLICT_WAIT_MS))
        await bus.advance(60)
        assert not starting.done()
        lines = [record.getMessage() for record in caplog.records if "waiting until they leave" in record.getMessage()]
        assert 5 <= len(lines) <= 8, "one in 10 s"
        assert run_of(old).registration.instance_id in lines[0]
        assert "another declaration (capabilities)" in lines[0]
        running = await bus.send("work")
        await bus.settle()
        stopping = asyncio.create_task(run_of(old).stop(10_000))
        await bus.advance(1)
        assert starting.done(), "the old one still works, and takes nothing more"
        assert not stopping.done()
        assert await bus.ask("capability:newer") == "new"
        go.set()
        await bus.advance(1)
        assert (await running.receipt(0)).output == "old"
        await stopping
        await run.kill()


async def test_a_twin_that_was_killed_is_waited_for() -> None:
    killed = agent_with(work)
    async with TestReach(killed) as bus:
        await bus.kill(killed)
        run = version_two().new_run(bus.place)
        starting = asyncio.create_task(run.start(CONFLICT_WAIT_MS))
        await bus.advance(14)
        assert not starting.done()
        await bus.advance(6)
        await starting
        assert await bus.ask("capability:newer") == "new"
        await run.kill()


@pytest.mark.parametrize(("wait_ms", "seconds"), [(0, 0.1), (5_000, 6)])
async def test_who_has_waited_long_enough_is_refused(wait_ms: int, seconds: float) -> None:
    async with TestReach(agent_with(work)) as bus:
        run = version_two().new_run(bus.place)
        starting = asyncio.create_task(run.start(wait_ms))
        await bus.advance(seconds)
        assert starting.done()
        with pytest.raises(RegistrationRefused, match="another declaration"):
            await starting
