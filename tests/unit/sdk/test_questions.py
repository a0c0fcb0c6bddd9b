"""`ctx.input_required`: what a handler gets that asks its caller, and what becomes of its message meanwhile."""

import asyncio
from typing import Any

import pytest

from reach import Agent, AnswerRefused, Context, Reject, Result
from reach.errors import BackendUnavailable
from reach.sdk.bodies import BodyError
from reach.sdk.client import Reach
from reach.testing import TestReach
from tests.unit.sdk.refunds import Approval, Desk, refunds

HOURS = 3_600


def agent_with(function: Any, **options: Any) -> Agent:
    agent = Agent("asker-{instance}", **options)
    agent.capability("ask")(function)
    return agent


async def hours_later(bus: TestReach) -> None:
    """Two hours in which nobody does anything, and the time that it takes everybody to come back."""
    await bus.settle()
    bus.clock.advance(2 * HOURS * 1_000)
    await bus.advance(30)


async def test_a_question_that_is_answered_after_two_hours() -> None:
    desk = Desk()
    async with TestReach(refunds(desk)) as bus:
        handle = await bus.send("refund", 500)
        await hours_later(bus)
        status = await handle.status()
        assert (status.state, status.legs[0].state, desk.calls) == ("open", "parked", [1])
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


# ---------------------------------------------------------------- what cannot be asked


async def told(function: Any, *values: Any, **options: Any) -> Any:
    """The receipt of a message to this handler, which is answered with these values."""
    async with TestReach(agent_with(function)) as bus:
        handle = await bus.send("ask", **options)
        for value in values:
            await bus.settle()
            await handle.answer(value)
        await bus.advance(1)
        return await handle.receipt(0.01)


async def test_another_question_in_the_same_place_is_refused() -> None:
    runs: list[int] = []

    async def fickle(ctx: Context) -> None:
        runs.append(1)
        await ctx.input_required(f"question {len(runs)}")

    receipt = await told(fickle, "yes")
    assert (receipt.code, receipt.details["reject"]) == ("handler.rejected", "another_question")


async def test_an_equal_question_is_the_same() -> None:
    words = [["b", "a"], ["a", "b"]]

    async def sets(ctx: Context) -> str:
        answer: str = await ctx.input_required({"of": dict.fromkeys(words.pop()), "set": {"x", "y", "z"}})
        return answer

    assert (await told(sets, "yes")).output == "yes"


async def test_an_answer_that_does_not_fit_is_refused() -> None:
    async def wants_a_number(ctx: Context) -> int:
        return await ctx.input_required("how many?", returns=int)

    receipt = await told(wants_a_number, "many")
    assert (receipt.code, receipt.details["reject"]) == ("handler.rejected", "answer_unfit")


async def test_a_plain_function_cannot_ask() -> None:
    def plain(ctx: Context) -> None:
        ctx.input_required("well?")

    receipt = await told(plain)
    assert (receipt.code, receipt.details["reject"]) == ("handler.rejected", "not_async")
    assert "async def" in receipt.error_message


@pytest.mark.parametrize(
    ("prompt", "options", "words"),
    [
        (float("nan"), {}, "NaN"),
        ("x" * 70_000, {}, "at most 65536"),
        ("?", {"state": "x" * 70_000}, "the state has"),
        ("?", {"timeout": 8 * 24 * HOURS}, "seven days"),
        ("?", {"timeout": -1}, "timeout"),
    ],
)
async def test_what_cannot_be_written_is_told_to_the_handler(prompt: Any, options: Any, words: str) -> None:
    async def ask(ctx: Context) -> str:
        try:
            await ctx.input_required(prompt, **options)
        except (BodyError, ValueError) as error:
            return str(error)
        return ""

    assert words in (await told(ask)).output


async def test_no_except_exception_stops_it_and_finally_runs() -> None:
    left: list[str] = []

    async def careful(ctx: Context) -> Any:
        try:
            return await ctx.input_required("well?")
        except Exception:
            left.append("caught")
            raise
        finally:
            left.append("finally")

    assert (await told(careful, 7)).output == 7
    assert left == ["finally", "finally"]


async def test_who_swallows_it_has_asked_nothing() -> None:
    async def swallows(ctx: Context) -> str:
        try:
            await ctx.input_required("well?")
        except BaseException:  # noqa: BLE001 - that is the test
            return "never mind"
        return "answered"

    assert (await told(swallows)).output == "never mind"


async def test_out_of_a_group_of_tasks() -> None:
    async def grouped(ctx: Context) -> Any:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(_asked(ctx))
        return task.result()

    async def _asked(ctx: Context) -> Any:
        return await ctx.input_required("well?")

    assert (await told(grouped, 3)).output == 3


async def test_what_goes_wrong_beside_a_question_is_what_counts() -> None:
    async def grouped(ctx: Context) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(_asked(ctx))
            group.create_task(_wrong())

    async def _asked(ctx: Context) -> Any:
        return await ctx.input_required("well?")

    async def _wrong() -> None:
        raise Reject("no", "not at all")

    receipt = await told(grouped, max_attempts=1)
    assert receipt.code == "handler.error"


async def test_a_message_asks_a_bounded_number_of_questions() -> None:
    async def endless(ctx: Context) -> None:
        for n in range(1_000):
            await ctx.input_required(n)

    async with TestReach(agent_with(endless)) as bus:
        task = asyncio.ensure_future(bus.request("ask", on_input=lambda prompt: prompt, timeout=600))
        await bus.advance(300)
        receipt = await task
    assert (receipt.code, receipt.details["reject"]) == ("handler.rejected", "too_many_questions")


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
