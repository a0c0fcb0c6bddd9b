"""What handlers may do, and what becomes of it: outcomes, deadlines, slots, readiness."""

import asyncio
import threading
from typing import Any

import pytest

from reach import Agent, Context, NoRoute, Reject, Result, Retry, Status
from reach.testing import TestReach
from tests.unit.sdk.shops import Mute, agent_with, beat_of, ended

# ---------------------------------------------------------------- outcomes


@pytest.mark.parametrize(
    "error",
    [
        ValueError("bad"),
        RecursionError(),
        MemoryError(),
        SystemExit(1),
        KeyboardInterrupt(),
        GeneratorExit(),
        Mute(),
        NoRoute("x"),
    ],
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


async def test_a_handler_that_cancels_its_own_task_has_failed() -> None:
    async def cancelled() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    async with TestReach(agent_with(cancelled)) as bus:
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


@pytest.mark.parametrize("declared", ["agent", "capability", "both"])
async def test_what_an_agent_declares_as_its_longest_run_is_kept(declared: str) -> None:
    async def hang(ctx: Context) -> int:
        if ctx.attempt == 1:
            await asyncio.Event().wait()
        return ctx.attempt

    agent = Agent("one", max_process={"agent": 2, "capability": None, "both": 60}[declared])
    agent.capability("work", max_process=None if declared == "agent" else 2)(hang)
    async with TestReach(agent) as bus:
        handle = await bus.send("work")
        await bus.advance(1.9)
        assert (await handle.status()).legs[0].state == "running"
        await bus.advance(0.2)
        assert (await handle.status()).legs[0].state == "waiting"
        await bus.advance(4)
        assert (await handle.receipt(0)).output == 2


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
        receipt = await ended(bus, 5, timeout=3)
        assert (receipt.code, receipt.attempts) == ("timeout.total", 1)
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


class Watched(TestReach):
    """Looks at every beat that is there after each step of anybody."""

    def __init__(self) -> None:
        super().__init__()
        self.beats: list[bytes] = []

    def _watch(self, step: str, args: tuple[Any, ...], result: Any) -> None:
        super()._watch(step, args, result)
        self.beats += (self.store.hash("reach:{dev}:load") or {}).values()


async def test_an_agent_that_is_not_ready_never_counts_as_ready_not_even_when_it_registers() -> None:
    agent = agent_with(lambda: None)
    agent.ready(lambda: "loading")

    async with Watched() as bus:
        await bus.start(agent)
        bus.store.clear()  # and the same when everything is forgotten
        await bus.advance(8)
        assert (await beat_of(bus, agent))["reason"] == "loading"
        assert len(bus.beats) > 1
        assert not [beat for beat in bus.beats if b"not_ready" not in beat]


@pytest.mark.parametrize("answer", [False, None, "soon", ValueError("no"), "hang"], ids=repr)
async def test_who_was_never_ready_is_never_given_work(answer: object) -> None:
    runs: list[str] = []

    async def work(ctx: Context) -> None:
        runs.append(ctx.msg_id)

    agent = agent_with(work)

    @agent.ready
    async def ready() -> Any:
        if isinstance(answer, Exception):
            raise answer
        if answer == "hang":
            await asyncio.Event().wait()
        return answer

    async with TestReach() as bus:
        await bus.start(agent)
        handle = await bus.send("work", timeout=8)
        for _ in range(8):
            leg = (await handle.status()).legs
            assert not leg or (leg[0].state, leg[0].agent) == ("waiting", None)
            await bus.advance(1)
        await bus.advance(1)
        assert not (await handle.receipt(0)).ok
        assert runs == []


def test_there_is_one_ready_check() -> None:
    agent = Agent("one")
    agent.ready(lambda: True)
    with pytest.raises(ValueError, match="ready check"):
        agent.ready(lambda: True)
