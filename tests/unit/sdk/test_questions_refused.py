"""`ctx.input_required`: what cannot be asked, and what a handler can do to what ends its run."""

import asyncio
from typing import Any

import pytest

from reach import Context, Reject
from reach.sdk.bodies import BodyError
from reach.testing import TestReach
from tests.unit.sdk.refunds import HOURS, agent_with


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
