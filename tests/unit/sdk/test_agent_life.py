"""How agents come, go, fail and are taken over."""

import asyncio
from typing import Any

import msgspec
import pytest

from reach import Agent, Context, RegistrationRefused, Status
from reach.errors import BackendDenied
from reach.sdk.runtime import until_refused_or
from reach.testing import TestReach, wait_until
from tests.unit.sdk.shops import agent_with, key_with

# ---------------------------------------------------------------- coming and going


async def test_a_killed_agents_work_goes_on_elsewhere() -> None:
    done: list[str] = []

    def replica(name: str, hang: bool) -> Agent:
        agent = Agent(f"{name}-{{instance}}")

        @agent.capability("work")
        async def work(ctx: Context) -> str:
            if hang:
                await asyncio.Event().wait()
            done.append(name)
            return name

        return agent

    first, second = replica("first", hang=True), replica("second", hang=False)
    async with TestReach(first) as bus:
        handle = await bus.send("work")
        await bus.settle()
        await bus.start(second)
        await bus.kill(first)
        await bus.advance(22)
        receipt = await handle.receipt(0)
        assert (receipt.output, receipt.attempts) == ("second", 2)
        assert done == ["second"]


async def test_a_paused_agent_comes_back_as_a_zombie_and_changes_nothing() -> None:
    go = asyncio.Event()

    async def work(ctx: Context) -> str:
        if ctx.attempt == 1:
            await go.wait()
        return f"attempt {ctx.attempt}"

    first, second = Agent("first"), Agent("second")
    first.capability("work")(work)
    second.capability("work")(work)
    async with TestReach(first) as bus:
        handle = await bus.send("work")
        await bus.settle()
        await bus.pause(first)
        await bus.start(second)
        await bus.advance(20)
        assert (await handle.receipt(0)).output == "attempt 2"
        go.set()
        await bus.settle()
        await bus.resume(first)
        await bus.advance(6)
        assert [receipt.output for receipt in bus.receipts if receipt.msg_id == handle.msg_id] == ["attempt 2"]


async def test_a_graceful_stop_hands_back_at_once_what_does_not_end() -> None:
    started = asyncio.Event()

    async def work(ctx: Context) -> int:
        if not started.is_set():
            started.set()
            await asyncio.Event().wait()
        return ctx.attempt

    first, second = Agent("first"), Agent("second")
    first.capability("work")(work)
    second.capability("work")(work)
    async with TestReach() as bus:
        async with first.running_at(bus.place, grace=0) as run:
            handle = await bus.send("work")
            await bus.settle()
            await bus.start(second)
            stopping = asyncio.create_task(run.stop(0))
            await bus.advance(0.1)
            await stopping
            await bus.settle()
            receipt = await handle.receipt(0)
            assert (receipt.output, receipt.target_agent) == (1, "second")  # burnt no attempt
            _, beats = await bus.reach.backend.registration("first")
            assert not beats
        assert (await bus.request("work")).target_agent == "second"


async def test_an_agent_with_many_slots_fills_them_over_several_takes() -> None:
    running = 0

    async def work() -> None:
        nonlocal running
        running += 1
        await asyncio.Event().wait()

    agent = Agent("worker", concurrency=250)
    agent.capability("work")(work)
    async with TestReach(agent) as bus:
        for _ in range(260):
            await bus.send("work")
        await bus.advance(0.1)
        assert running == 250


async def test_a_graceful_stop_leaves_no_consumer_and_a_kill_one_for_the_reaper() -> None:
    def worker() -> Agent:
        agent = Agent("worker")

        @agent.capability("work")
        async def work() -> str:
            return "done"

        return agent

    stopped, killed = worker(), worker()
    async with TestReach(killed, worker()) as bus, stopped.running_at(bus.place, grace=0) as run:

        def consumers() -> int:
            stream = bus.store.stream(key_with(bus, "inbox:worker:normal"))
            assert stream is not None
            group = stream.group("agent")
            assert group is not None
            return len(group.consumers)

        for _ in range(9):
            await bus.request("work")
        assert consumers() == 3
        stopping = asyncio.create_task(run.stop(0))
        await bus.advance(1)
        await stopping
        assert consumers() == 2
        await bus.kill(killed)
        await bus.advance(30)
        assert consumers() == 2
        for _ in range(62):
            await bus.advance(10)
        assert consumers() == 1
        assert (await bus.request("work")).output == "done"


async def test_a_graceful_stop_lets_what_runs_end() -> None:
    async with TestReach() as bus:

        async def work() -> str:
            await bus.clock.sleep(2_000)
            return "done"

        agent = agent_with(work)
        async with agent.running_at(bus.place) as run:
            handle = await bus.send("work")
            await bus.settle()
            stopping = asyncio.create_task(run.stop(10_000))
            await bus.advance(0.5)
            _, beats = await bus.reach.backend.last_beats(0)
            assert b"draining" in beats[0].beat
            await bus.advance(2)
            await stopping
            assert (await handle.receipt(0)).output == "done"


async def test_a_registry_that_forgot_learns_again() -> None:
    async def work() -> str:
        return "done"

    agent = agent_with(work)
    async with TestReach(agent) as bus:
        bus.store.clear()
        await bus.advance(7)
        assert await bus.ask("work") == "done"


async def test_an_agent_waits_for_its_redis_and_for_a_registrar() -> None:
    async def work() -> str:
        return "done"

    agent = agent_with(work)
    async with TestReach() as bus:
        run = agent.new_run(bus.place)
        backend = bus.newest
        backend.fail("open", times=2)
        backend.fail("keep_mailbox", times=2)
        backend.fail("send_control", times=2)
        starting = asyncio.create_task(run.start())
        await bus.advance(10)
        await starting
        assert await bus.ask("work") == "done"
        await run.kill()


async def test_an_agent_that_redis_refuses_says_so() -> None:
    async def work() -> None: ...

    async with TestReach() as bus:
        run = agent_with(work).new_run(bus.place)
        bus.newest.fail("open", error=BackendDenied("no"))
        with pytest.raises(BackendDenied):
            await run.start()


@pytest.mark.parametrize("step", ["take", "settle", "ring", "renew", "beat", "progress"])
@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
async def test_a_fault_at_any_step_costs_nothing(step: str, before: bool) -> None:
    runs: list[str] = []

    async def work(ctx: Context) -> str:
        runs.append(ctx.msg_id)
        return "done"

    agent = agent_with(work)
    async with TestReach(agent) as bus:
        await bus.advance(1)
        bus.backend_of(agent).fail(step, before=before, times=3)
        handles = [await bus.send("work") for _ in range(3)]
        await bus.advance(12)
        assert [(await handle.receipt(0)).ok for handle in handles] == [True] * 3
        assert sorted(runs) == sorted(handle.msg_id for handle in handles)


async def test_a_bell_that_breaks_again_and_again_makes_nobody_take_more_slowly(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Connections that are killed ever again: whoever blocks is always hit, and a take that comes in between does well."""
    agent = agent_with(lambda: "done")
    async with TestReach(agent) as bus:
        await bus.advance(1)
        bus.backend_of(agent).fail("ring", times=50)
        for _ in range(20):
            handle = await bus.send("work")
            await bus.advance(0.02)
            assert (await handle.receipt(0)).ok
    assert [record.getMessage() for record in caplog.records if "service=take" in record.getMessage()] == []


async def test_hop_records_tell_the_whole_way() -> None:
    async def work() -> str:
        return "done"

    async with TestReach(agent_with(work)) as bus:
        receipt = await bus.request("work", correlation_id="conv")

        async def points() -> list[str]:
            entries = await bus.reach.backend.read_events(0, "0", 0)
            records = [record for _, batch in entries for record in msgspec.json.decode(batch)]
            return [r["point"] for r in records if r["msg_id"] == receipt.msg_id]

        async def whole() -> bool:
            return {"agent.received", "agent.responding", "agent.completed", "message.delivered"} <= set(await points())

        await wait_until(whole)


async def test_an_agent_leaves_also_when_nobody_answers() -> None:
    async def work() -> None: ...

    async with TestReach() as bus:
        run = agent_with(work).new_run(bus.place)
        starting = asyncio.create_task(run.start())
        await bus.settle()
        await starting
        await bus.stop_router()
        stopping = asyncio.create_task(run.stop(0))
        await bus.advance(2)
        await stopping
        await run.stop(0)


async def test_what_is_taken_while_it_drains_is_handed_back_at_once() -> None:
    runs: list[str] = []

    async def work(ctx: Context) -> str:
        runs.append(ctx.msg_id)
        return "done"

    first, second = Agent("first"), Agent("second")
    first.capability("work")(work)
    second.capability("work")(work)
    async with TestReach(first) as bus:
        run = first.instances[0]
        backend = bus.backend_of(first)
        backend.pause()  # the take below reaches the ledger, and its reply comes after the farewell has begun
        handle = await bus.send("work")
        await bus.settle()
        await bus.start(second)
        run.condition.draining = True
        backend.resume()
        await bus.advance(4)
        receipt = await handle.receipt(0)
        assert (receipt.output, receipt.attempts) == ("done", 1)
        assert runs == [handle.msg_id]


async def test_bytes_that_were_lost_on_the_way_are_told_as_that() -> None:
    async def work() -> str:
        return "done"

    agent = agent_with(work)
    async with TestReach(agent) as bus:
        backend = bus.backend_of(agent)
        take = backend.backend.take

        async def without_bytes(*args: Any, **kwargs: Any) -> Any:
            result = await take(*args, **kwargs)
            return msgspec.structs.replace(
                result, taken=tuple(msgspec.structs.replace(taken, envelope=b"") for taken in result.taken)
            )

        backend.__dict__["take"] = without_bytes
        handle = await bus.send("work", max_attempts=1)
        await bus.advance(5)
        receipt = await handle.receipt(0)
        assert (receipt.status, receipt.code) == (Status.RETRYABLE, "backend.unavailable")


async def test_a_registration_that_is_refused_later_ends_the_agent() -> None:
    async def work() -> None: ...

    agent, other = agent_with(work), Agent("one", weight=3)
    async with TestReach(agent) as bus:
        bus.store.clear()
        await bus.start(other)
        agent.instances[0].membership.forgotten()
        await bus.advance(4)  # the first answer finds no mailbox: that was forgotten too
        refused = agent.instances[0].membership.refused
        assert refused.done()
        assert refused.result().code == "registration.conflict"
        stop = asyncio.Event()
        with pytest.raises(RegistrationRefused):
            await until_refused_or(agent.instances[0], stop)
