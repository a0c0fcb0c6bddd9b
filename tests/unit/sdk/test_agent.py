"""An agent against a real router on memory: what its handlers may do, and how it comes and goes."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from reach import Agent, ConfigError, Context, NoRoute, RegistrationRefused, Reject, Result, Retry, Status
from reach.envelope.registration import Capability
from reach.errors import BackendDenied
from reach.sdk.runtime import AgentRun
from reach.testing import TestReach, wait_until


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


def agent_with(handler: Callable[..., Any], **options: Any) -> Agent:
    agent = Agent("one", **options)
    agent.capability("work")(handler)
    return agent


async def ended(bus: TestReach, seconds: float = 40, **options: Any) -> Any:
    handle = await bus.send("work", **options)
    await bus.advance(seconds)
    return await handle.receipt(0)


# ---------------------------------------------------------------- outcomes


@pytest.mark.parametrize(
    "error",
    [ValueError("bad"), RecursionError(), MemoryError(), SystemExit(1), KeyboardInterrupt(), Mute(), NoRoute("x")],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("threaded", [False, True])
async def test_whatever_a_handler_raises_is_retried_and_then_told(error: BaseException, threaded: bool) -> None:
    runs = 0

    def fail() -> None:
        nonlocal runs
        runs += 1
        raise error

    async def fail_in_the_loop() -> None:
        fail()

    async with TestReach(agent_with(fail if threaded else fail_in_the_loop)) as bus:
        receipt = await ended(bus, 20, max_attempts=2)
        assert (receipt.status, receipt.code, receipt.attempts) == (Status.RETRYABLE, "handler.error", 2)
        assert type(error).__name__ in receipt.error_message
        assert receipt.details["dead_letter"]
        assert runs == 2


async def test_stop_iteration_ends_a_run_like_any_other_error() -> None:
    def stop() -> None:
        raise StopIteration

    async with TestReach(agent_with(stop)) as bus:
        assert (await ended(bus, 5, max_attempts=1)).code == "handler.error"


async def test_a_handler_that_cancels_itself_has_failed() -> None:
    async def cancelled() -> None:
        raise asyncio.CancelledError

    async with TestReach(agent_with(cancelled)) as bus:
        assert (await ended(bus, 5, max_attempts=1)).code == "handler.error"
        assert (await ended(bus, 5, max_attempts=1)).code == "handler.error"


async def test_a_rejection_is_final() -> None:
    async def reject() -> None:
        raise Reject("no_such_order", "there is none", order="ORD-1")

    async with TestReach(agent_with(reject)) as bus:
        receipt = await ended(bus, 0)
        assert (receipt.status, receipt.code, receipt.attempts) == (Status.FAILED, "handler.rejected", 1)
        assert receipt.details == {"reject": "no_such_order", "order": "ORD-1"}
        assert receipt.error_message == "there is none"


async def test_retry_with_a_moment_waits_for_it_and_burns_no_attempt() -> None:
    seen: list[tuple[int, int]] = []

    async with TestReach() as bus:

        async def later(ctx: Context) -> str:
            seen.append((ctx.attempt, bus.clock.monotonic_ms()))
            if len(seen) < 3:
                raise Retry(after=5, message="busy")
            return "done"

        await bus.start(agent_with(later))
        handle = await bus.send("work", max_attempts=1)
        await bus.advance(4.9)
        assert len(seen) == 1
        await bus.advance(10)
        receipt = await handle.receipt(0)
        assert (receipt.output, receipt.attempts) == ("done", 1)
        assert [attempt for attempt, _ in seen] == [1, 1, 1]
        assert seen[1][1] - seen[0][1] >= 5_000


async def test_retry_without_a_moment_backs_off() -> None:
    async def later(ctx: Context) -> int:
        if ctx.attempt < 3:
            raise Retry
        return ctx.attempt

    async with TestReach(agent_with(later)) as bus:
        assert (await ended(bus, 6)).output == 3


async def test_a_result_carries_confidence_and_cost() -> None:
    async def unsure() -> Result[str]:
        return Result("perhaps", confidence=0.4, cost=0.01)

    async with TestReach(agent_with(unsure)) as bus:
        receipt = await bus.request("work")
        assert (receipt.output, receipt.confidence, receipt.cost) == ("perhaps", 0.4, 0.01)


async def test_a_result_that_cannot_travel_fails_clearly() -> None:
    async def strange() -> object:
        return object()

    async with TestReach(agent_with(strange)) as bus:
        receipt = await bus.request("work")
        assert (receipt.status, receipt.code) == (Status.FAILED, "handler.error")
        assert "object" in (receipt.error_message or "")


async def test_an_unknown_type_is_told_with_what_there_is() -> None:
    agent = Agent("one")

    @agent.capability("a")
    async def a() -> None: ...

    @agent.capability("b", schema="b.v1")
    async def b() -> None: ...

    async with TestReach(agent) as bus:
        receipt = await bus.request("agent_id:one")
        assert (receipt.status, receipt.code) == (Status.FAILED, "error.unknown_type")
        assert receipt.details["supported"] == [
            {"capability": "a", "schema": None, "type": "request"},
            {"capability": "b", "schema": "b.v1", "type": "request"},
        ]


# ---------------------------------------------------------------- deadlines


@pytest.mark.parametrize("stubborn", [False, True])
async def test_a_handler_without_a_sign_of_life_is_cancelled_at_its_processing_deadline(stubborn: bool) -> None:
    cancelled = []

    async def hang(ctx: Context) -> str:
        if ctx.attempt == 2:
            return "second"
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(ctx.cancelled)
            if not stubborn:
                raise
        return "too late"

    async with TestReach(agent_with(hang)) as bus:
        receipt = await ended(bus, 20)
        assert cancelled == [True]
        assert (receipt.output, receipt.attempts) == ("second", 2)


async def test_a_sign_of_life_moves_the_processing_deadline() -> None:
    async with TestReach() as bus:

        async def long(ctx: Context) -> int:
            for _ in range(5):
                await bus.clock.sleep(10_000)
                await ctx.alive()
            return ctx.attempt

        await bus.start(agent_with(long))
        assert (await ended(bus, 70, timeout=65)).output == 1


async def test_total_ends_a_handler_that_lives_on() -> None:
    ended_with: list[bool] = []

    async with TestReach() as bus:

        async def endless(ctx: Context) -> None:
            try:
                while True:
                    await bus.clock.sleep(1_000)
                    await ctx.alive()
            finally:
                ended_with.append(ctx.cancelled)

        await bus.start(agent_with(endless))
        assert (await ended(bus, 5, timeout=3)).code == "timeout.total"
        assert ended_with == [True]


async def test_a_thread_that_is_given_up_keeps_its_slot_until_it_ends() -> None:
    go = threading.Event()
    names: list[str] = []

    def block(ctx: Context) -> str:
        names.append(threading.current_thread().name)
        if ctx.attempt == 1:
            go.wait(10)
        return "done"

    agent = agent_with(block, concurrency=1)
    async with TestReach(agent) as bus:
        handle = await bus.send("work", timeout=25)
        for _ in range(160):  # by hand: `advance` waits for threads, and this one waits for us
            bus.clock.advance(100)
            await asyncio.sleep(0.001)
        status = await handle.status()
        assert [leg.attempts for leg in status.legs] == [1]
        go.set()
        await bus.advance(5)
        assert (await handle.receipt(0)).output == "done"
        assert names == ["reach-handler"] * 2


# ---------------------------------------------------------------- context


async def test_what_a_handler_sends_continues_the_conversation() -> None:
    seen: dict[str, Any] = {}
    front, back = Agent("front-{instance}"), Agent("back")

    @front.capability("front")
    async def ask(body: dict[str, Any], ctx: Context) -> Any:
        seen["front"] = ctx
        return await ctx.ask("back", body, key="step 1", timeout=60)

    @back.capability("back")
    async def answer(body: dict[str, Any], ctx: Context) -> Any:
        seen["back"] = ctx
        return [body, ctx.correlation_id, ctx.key, ctx.source.name]

    async with TestReach(front, back) as bus:
        got = await bus.ask("front", {"x": 1}, correlation_id="conv-1", headers={"tenant": "t"}, timeout=10)
        assert got == [{"x": 1}, "conv-1", "step 1", "front"]
        first, second = bus.sent
        assert second.in_reply_to == first.msg_id
        assert second.traces.previous_hops == (second.source.agent_id,)
        assert second.timeouts.total_ms is not None
        assert second.timeouts.total_ms <= 10_000  # a child does not outlive the one who asks
        assert second.traces.traceparent is not None
        context = seen["front"]
        assert (context.msg_id, context.key, context.attempt) == (first.msg_id, first.msg_id, 1)
        assert context.headers == {"tenant": "t"}
        assert context.source.agent_id == "test"
        assert context.deadline == pytest.approx(bus.clock.wall_ms() / 1000 + 10, abs=0.1)
        assert 0 < context.remaining <= 10
        assert not context.cancelled


async def test_a_trace_goes_through_every_hop() -> None:
    front, back = Agent("front"), Agent("back")

    @front.capability("front")
    async def ask(ctx: Context) -> Any:
        return await ctx.ask("back")

    @back.capability("back")
    async def answer() -> int:
        return 1

    async with TestReach(front, back) as bus:
        await bus.ask("front")
        first, second = bus.sent
        trace = first.msg_id.replace("-", "")  # nobody traced before: the message's own
        assert first.traces.traceparent is None
        assert (second.traces.traceparent or "").split("-")[1] == trace


async def test_a_loop_is_found_by_its_path() -> None:
    agent = Agent("one")

    @agent.capability("again")
    async def again(ctx: Context) -> Any:
        return (await ctx.request("again")).code

    async with TestReach(agent) as bus:
        handle = await bus.send("again")
        await bus.advance(5)
        assert (await handle.receipt(0)).output == "loop.detected"


async def test_a_rerun_makes_the_same_child() -> None:
    front, back = Agent("front-{instance}"), Agent("back")
    effects: list[str] = []

    @front.capability("front")
    async def ask(ctx: Context) -> Any:
        child = await ctx.request("back", key=f"{ctx.key}/child")
        if ctx.attempt == 1:
            raise ValueError("after the child")
        return child.stored

    @back.capability("back")
    async def answer(ctx: Context) -> int:
        effects.append(ctx.msg_id)
        return 1

    async with TestReach(front, back) as bus:
        handle = await bus.send("front", key="order")
        await bus.advance(3)
        assert (await handle.receipt(0)).output is True
        assert len(effects) == 1


async def test_a_log_line_says_which_message_it_is_about(caplog: pytest.LogCaptureFixture) -> None:
    async def work(ctx: Context) -> None:
        ctx.log.warning("hello")

    async with TestReach(agent_with(work)) as bus:
        receipt = await bus.request("work", correlation_id="conv")
        line = next(record for record in caplog.records if record.message == "hello")
        assert (line.__dict__["msg_id"], line.__dict__["correlation_id"]) == (receipt.msg_id, "conv")


# ---------------------------------------------------------------- concurrency


async def test_no_more_run_at_once_than_there_are_slots() -> None:
    running = most = 0
    go = asyncio.Event()

    async def work() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await go.wait()
        running -= 1

    agent = agent_with(work, concurrency=2)
    async with TestReach(agent) as bus:
        handles = [await bus.send("work") for _ in range(5)]
        await bus.advance(1)
        assert most == 2
        assert (await beat_of(bus, agent))["state"] == "busy"
        go.set()
        await bus.advance(6)
        assert [(await handle.receipt(0)).ok for handle in handles] == [True] * 5
        assert most == 2
        beat = await beat_of(bus, agent)
        assert (beat.get("state", "ready"), beat["success_rate"]) == ("ready", 1.0)


def run_of(agent: Agent) -> AgentRun:
    return agent.instances[-1]


async def beat_of(bus: TestReach, agent: Agent) -> dict[str, Any]:
    _, pulses = await bus.reach.backend.pulses(0)
    instance_id = run_of(agent).registration.instance_id
    beat = next(pulse.beat for pulse in pulses if pulse.instance_id == instance_id)
    found: dict[str, Any] = msgspec.json.decode(beat)
    return found


async def test_an_agent_reports_how_it_is() -> None:
    async def work() -> None: ...

    agent = agent_with(work)
    async with TestReach(agent) as bus:
        agent.report(context_left=1000, busy=True)
        await bus.advance(1.5)
        beat = await beat_of(bus, agent)
        assert (beat["state"], beat["context_left"]) == ("busy", 1000)
        agent.report(busy=False)
        await bus.advance(1.5)
        assert (await beat_of(bus, agent)).get("state", "ready") == "ready"


# ---------------------------------------------------------------- ready


async def test_an_agent_that_is_not_ready_gets_no_work_and_says_why() -> None:
    verdict: list[bool | str | Exception] = ["the model is loading"]

    async def work() -> str:
        return "done"

    agent = agent_with(work)

    @agent.ready
    async def ready() -> bool | str:
        if isinstance(verdict[0], Exception):
            raise verdict[0]
        return verdict[0]

    async with TestReach(agent) as bus:
        await bus.advance(1)
        beat = await beat_of(bus, agent)
        assert (beat["state"], beat["reason"]) == ("not_ready", "the model is loading")
        handle = await bus.send("work")
        await bus.advance(2)
        assert (await handle.status()).legs[0].state == "waiting"
        verdict[0] = ValueError("no credentials")
        await bus.advance(1.5)
        assert (await beat_of(bus, agent))["reason"] == "ValueError: no credentials"
        verdict[0] = True
        await bus.advance(8)
        assert (await handle.receipt(0)).output == "done"
        verdict[0] = False
        await bus.advance(6)
        assert (await beat_of(bus, agent))["reason"] == "not ready"


def test_there_is_one_ready_check() -> None:
    agent = Agent("one")
    agent.ready(lambda: True)
    with pytest.raises(ValueError, match="ready check"):
        agent.ready(lambda: True)


# ---------------------------------------------------------------- declaring


def test_an_agent_that_cannot_be_is_told_with_every_problem() -> None:
    with pytest.raises(ConfigError) as caught:
        Agent("one", concurrency=0, weight=-1, groups=("a b",))
    assert caught.value.details["problems"] == ["groups[0]", "concurrency", "weight"]
    for wrong in ("", "a b", "{instance}}", "-x"):
        with pytest.raises(ConfigError):
            Agent(wrong)


async def test_what_is_declared_is_what_the_handlers_are() -> None:
    agent = Agent(
        "one", capabilities=("extra", Capability(name="more", cost=1.0)), description="does it", groups=("g",)
    )

    @agent.capability("refund", schema="refund.v1", description="pays back", examples=({"x": 1},), max_process=60)
    async def one() -> None: ...

    @agent.capability("refund", schema="refund.v2")
    async def two() -> None: ...

    @agent.on("market.news")
    async def news() -> None: ...

    async with TestReach(agent) as bus:
        stored, _ = await bus.reach.backend.registration("one")
        assert stored is not None
        said = msgspec.json.decode(stored)
        assert [(c["name"], c.get("input_schema")) for c in said["capabilities"]] == [
            ("extra", None),
            ("more", None),
            ("refund", "refund.v1"),
            ("refund", "refund.v2"),
        ]
        refund = said["capabilities"][2]
        assert (refund["description"], refund["examples"], refund["max_process_ms"]) == (
            "pays back",
            [{"x": 1}],
            60_000,
        )
        assert said["capabilities"][3]["description"] == "does it"
        assert said["accepts"] == [{"type": "market.news"}, {"type": "request", "schemas": ["refund.v1", "refund.v2"]}]


async def test_another_declaration_of_the_same_agent_is_refused() -> None:
    async def work() -> None: ...

    one, other = agent_with(work), Agent("one")
    async with TestReach(one) as bus:
        with pytest.raises(RegistrationRefused) as caught:
            await bus.start(other)
        assert caught.value.code == "registration.conflict"
        await bus.start(agent_with(work))  # the same one joins as one more instance
        _, beats = await bus.reach.backend.registration("one")
        assert len(beats) == 2


async def test_a_capability_is_added_while_it_runs() -> None:
    async def work() -> str:
        return "work"

    async def more() -> str:
        return "more"

    agent = agent_with(work)
    async with TestReach(agent) as bus:
        await agent.add_capability("more", more)
        await bus.settle()
        assert await bus.ask("capability:more") == "more"
        await bus.start(agent)  # another instance declares the same
        assert await bus.ask("capability:work") == "work"
    with pytest.raises(ValueError, match="two handlers"):
        await agent.add_capability("more", more)


async def test_a_capability_that_is_refused_is_taken_back() -> None:
    async def work() -> str:
        return "work"

    one, same = agent_with(work), agent_with(work)
    async with TestReach(one, same) as bus:
        with pytest.raises(RegistrationRefused):
            await one.add_capability("more", work)
        assert await bus.ask("work") == "work"
        task = asyncio.create_task(bus.request("capability:more"))
        await bus.advance(4)
        assert (await task).code == "route.not_found"


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
            _, pulses = await bus.reach.backend.pulses(0)
            assert b"draining" in pulses[0].beat
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
