"""`ctx.input_required`: what a handler gets that asks its caller, and what becomes of its message meanwhile."""

import asyncio
from typing import Any

import pytest

from reach import Agent, AnswerRefused, Context, Result
from reach.errors import BackendUnavailable
from reach.sdk.client import Reach
from reach.testing import TestReach
from tests.unit.sdk.refunds import HOURS, Approval, Desk, agent_with, hours_later, refunds


async def test_a_question_that_is_answered_after_two_hours() -> None:
    desk = Desk()
    async with TestReach(refunds(desk)) as bus:
        handle = await bus.send("refund", 500)
        await hours_later(bus)
        status = await handle.status()
        assert (status.state, status.legs[0].state, desk.calls) == ("open", "parked", [1])
        assert status.legs[0].attempts == 1, "its run has begun, and goes on with the answer"
        await handle.answer({"ok": True, "by": "ann"})
        await bus.settle()
        receipt = await handle.receipt()
    assert (receipt.output, receipt.attempts) == ("paid", 1)
    assert desk.seen == [Approval(True, "ann")]
    assert desk.calls == [1, 1]  # called from its start, as the same attempt


async def test_nothing_is_asked_that_needs_no_answer() -> None:
    desk = Desk()
    async with TestReach(refunds(desk)) as bus:
        assert (await bus.request("refund", 50)).output == "paid"
    assert (desk.calls, desk.seen) == ([1], [])


async def test_the_slot_is_free_meanwhile() -> None:
    async with TestReach(refunds(Desk(), concurrency=1)) as bus:
        handle = await bus.send("refund", 500)
        await bus.settle()
        assert (await bus.request("refund", 50)).output == "paid"
        await handle.answer(Approval(False))
        await bus.settle()
        assert (await handle.receipt()).output == "refused"


async def test_several_questions_follow_one_another_and_state_is_kept() -> None:
    seen: list[Any] = []

    async def quiz(ctx: Context) -> list[Any]:
        seen.append(ctx.state)
        first = await ctx.input_required("name?", state={"step": 1})
        second = await ctx.input_required(["age?", first])
        third = await ctx.input_required("sure?", state={"step": 3}, returns=bool)
        return [first, second, third]

    async with TestReach(agent_with(quiz)) as bus:
        handle = await bus.send("ask")
        for value in ("ann", 41, True):
            await bus.advance(300)
            await handle.answer(value)
        await bus.settle()
        receipt = await handle.receipt()
    assert receipt.output == ["ann", 41, True]
    assert seen == [None, {"step": 1}, {"step": 1}, {"step": 3}]


async def test_an_agent_that_dies_meanwhile_is_not_missed() -> None:
    desk, agent = Desk(), refunds(Desk())
    async with TestReach(agent) as bus:
        handle = await bus.send("refund", 500)
        await bus.advance(5)
        await bus.kill(agent)
        await bus.advance(300)
        await handle.answer(Approval(True))
        await bus.start(refunds(desk))
        await bus.advance(5)
        assert (await handle.receipt()).output == "paid"
    assert desk.calls == [1]


async def test_an_agent_that_dies_before_it_has_asked_asks_again() -> None:
    agent = refunds(Desk())
    async with TestReach(agent) as bus:
        bus.backend_of(agent).pause()
        handle = await bus.send("refund", 500)
        await bus.settle()
        bus.backend_of(agent).resume()
        bus.backend_of(agent).fail("park", times=100)
        await bus.settle()
        await bus.kill(agent)
        await bus.start(refunds(Desk()))
        await bus.advance(20)
        assert (await handle.status()).legs[0].state == "parked"
        await handle.answer(Approval(True))
        await bus.settle()
        receipt = await handle.receipt()
    assert (receipt.output, receipt.attempts) == ("paid", 2)  # the run that died counts


@pytest.mark.parametrize("lost", [True, False])
async def test_a_park_whose_outcome_is_unknown_is_written_again(lost: bool) -> None:
    desk = Desk()
    agent = refunds(desk)
    async with TestReach(agent) as bus:
        if lost:
            bus.backend_of(agent).lose_reply("park", times=2)
        else:
            bus.backend_of(agent).fail("park", times=2)
        receipt = bus.request("refund", 500, on_input=lambda _: Approval(True))
        task = asyncio.ensure_future(receipt)
        await bus.advance(5)
        assert (await task).output == "paid"
    assert desk.calls == [1, 1]


async def test_a_retry_is_given_the_answers_and_asks_nobody() -> None:
    desk, asked = Desk(), []

    def approve(prompt: Any) -> Approval:
        asked.append(prompt)
        return Approval(True)

    async with TestReach(refunds(desk, [RuntimeError("no bank"), RuntimeError("no bank yet")])) as bus:
        task = asyncio.ensure_future(bus.request("refund", 500, on_input=approve))
        await bus.advance(10)
        receipt = await task
    assert (receipt.output, receipt.attempts) == ("paid", 3)
    assert (asked, desk.calls) == ([{"refund": 500}], [1, 1, 2, 3])


async def test_a_retry_that_asks_goes_on_at_once() -> None:
    """Its former run has failed, and its last one is not over: what is answered waits for no back-off, and for no attempt."""
    runs: list[int] = []

    async def fails_and_asks(ctx: Context) -> str:
        runs.append(ctx.attempt)
        if ctx.attempt == 1:
            raise RuntimeError("first")
        return str(await ctx.input_required("well?"))

    async with TestReach(agent_with(fails_and_asks)) as bus:
        handle = await bus.send("ask", max_attempts=2)
        await bus.advance(2)
        await handle.answer("yes")
        await bus.settle()
        assert (await handle.receipt(0.01)).output == "yes"
    assert runs == [1, 2, 2]


async def test_what_was_left_of_the_total_begins_with_the_answer() -> None:
    async def slow(ctx: Context) -> None:
        await asyncio.sleep(0)
        await ctx.input_required("go?")
        await ctx._origin.exchange.clock.sleep(60_000)

    async with TestReach(agent_with(slow, max_process=120)) as bus:
        handle = await bus.send("ask", timeout=30)
        await bus.advance(300)
        asked_at_ms = bus.clock.wall_ms()
        await handle.answer(True)
        await bus.advance(40)
        receipt = await handle.receipt()
    assert receipt.code == "timeout.total"
    assert 29_000 < receipt.finished_at - asked_at_ms < 31_000
    assert "local" not in receipt.details


async def test_a_question_that_nobody_answers_ends_the_message() -> None:
    async def ask(ctx: Context) -> None:
        await ctx.input_required("well?", timeout=60)

    async with TestReach(agent_with(ask)) as bus:
        handle = await bus.send("ask")
        await bus.advance(61)
        receipt = await handle.receipt()
        assert (receipt.code, receipt.details["state"], receipt.attempts) == ("timeout.total", "parked", 1)
        assert "local" not in receipt.details
        with pytest.raises(AnswerRefused) as refused:
            await handle.answer(1)
        assert refused.value.code in {"answer.not_asked", "answer.stale"}


async def test_effects_before_a_question_are_made_once() -> None:
    desk = Desk()

    async def book(ctx: Context) -> int:
        number: int = await ctx.once("pay", desk.pay, 7)
        await ctx.input_required("mail a receipt?", timeout=23 * HOURS)
        return number

    async with TestReach(agent_with(book)) as bus:
        handle = await bus.send("ask")
        await hours_later(bus)
        await handle.answer(True)
        await bus.settle()
        assert (await handle.receipt()).output == 1
    assert desk.paid == [7]


async def test_a_second_opinion_may_ask_too() -> None:
    def opinion(name: str, confidence: float) -> Agent:
        agent = Agent(name)

        @agent.capability("judge")
        async def judge(ctx: Context) -> Result[str]:
            said = await ctx.input_required("guilty?")
            return Result(f"{name} {said}", confidence=confidence)

        return agent

    asked = []

    async def on_input(prompt: Any) -> str:
        asked.append(prompt)
        return "yes"

    async with TestReach(opinion("first", 0.3), opinion("second", 0.6)) as bus:
        task = asyncio.ensure_future(bus.request("judge", min_confidence=0.9, on_input=on_input))
        await bus.advance(10)
        receipt = await task
    assert (receipt.output, receipt.partial) == ("second yes", True)
    assert asked == ["guilty?"]  # the same question to another agent is answered already


async def test_a_second_opinion_that_nobody_answers_leaves_the_best() -> None:
    def opinion(name: str, questions: int) -> Agent:
        agent = Agent(name)

        @agent.capability("judge")
        async def judge(ctx: Context) -> Result[str]:
            if questions:
                await ctx.input_required("well?", timeout=60)
            return Result(name, confidence=0.3)

        return agent

    async with TestReach(opinion("first", 0)) as bus:
        handle = await bus.send("judge", min_confidence=0.9)
        await bus.start(opinion("second", 1))
        await bus.advance(3)
        status = await handle.status()
        if status.state == "ended":  # the first was alone: there is no second opinion
            pytest.fail("nobody else was asked")
        await bus.advance(70)
        receipt = await handle.receipt()
    assert (receipt.output, receipt.partial) == ("first", True)


async def test_what_cannot_be_read_of_the_answers_is_told() -> None:
    """A foreign sender has answered with something that only looks like JSON."""

    async def ask(ctx: Context) -> Any:
        return await ctx.input_required("well?")

    async with TestReach(agent_with(ask)) as bus:
        handle = await bus.send("ask")
        await bus.settle()
        record = await bus.client_backend.backend.inspect(0, handle.msg_id)
        assert record is not None
        told = await bus.client_backend.backend.answer(0, handle.msg_id, "test", 0, record.legs[0].hand, b'{"a" 1}')
        assert told == "done"
        await bus.settle()
        receipt = await handle.receipt()
    assert (receipt.code, receipt.details["reject"]) == ("handler.rejected", "answer_unreadable")


async def test_a_stop_waits_for_the_question_to_be_written() -> None:
    desk = Desk()
    agent = refunds(desk)
    async with TestReach() as bus:
        async with agent.running_at(bus.place):
            handle = await bus.send("refund", 500)
            await bus.settle()
        await bus.start(refunds(desk))
        await bus.settle()
        await handle.answer(Approval(True))
        await bus.advance(2)
        assert (await handle.receipt()).attempts == 1


async def test_a_client_elsewhere_is_somebody_else() -> None:
    async with TestReach(refunds(Desk())) as bus:
        handle = await bus.send("refund", 500)
        await bus.settle()
        other, same = Reach(bus.place, agent_id="other"), Reach(bus.place, agent_id="test")
        for reach in (other, same):
            await reach.start()
        with pytest.raises(AnswerRefused) as refused:
            await other.answer(handle.msg_id, Approval(True))
        assert refused.value.code == "answer.denied"
        await same.answer(handle.msg_id, Approval(True))
        await bus.settle()
        assert (await handle.receipt()).output == "paid"
        for reach in (other, same):
            await reach.close()
        with pytest.raises(BackendUnavailable):
            await same.answer(handle.msg_id, 1)
