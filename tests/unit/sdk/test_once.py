"""ctx.once: an effect is made once, and every later run of its message is told what came of it."""

import asyncio
import threading
from typing import Any

import pytest

from reach import Agent, Context, Reject, Retry, Status
from reach.sdk.effects import MAX_RESULT_BYTES
from reach.testing import TestReach
from tests.unit.sdk.bank import Bank, Booking, clerk


async def test_a_run_that_comes_again_is_told_what_came_of_the_effect() -> None:
    bank, seen = Bank(), list[Any]()
    async with TestReach(clerk(bank, seen, [Retry(after=1), ValueError("down")])) as bus:
        handle = await bus.send("refund", key="order-1")
        await bus.advance(5)
        receipt = await handle.receipt(0)
    assert (receipt.status, receipt.output) == (Status.SUCCESS, 1)
    assert bank.booked == ["order-1"]
    assert seen == [Booking(1)] * 3, "of the type that the function says, also when it is read from the guard"


async def test_an_agent_that_dies_after_the_effect_costs_no_second_one() -> None:
    """The refund accident: booked, and nobody has heard of it."""
    bank, seen = Bank(), list[Any]()
    first, second = clerk(bank, seen), clerk(bank, seen)
    async with TestReach(first) as bus:
        bus.backend_of(first).crash("settle", before=True)
        handle = await bus.send("refund", key="order-1")
        await bus.advance(0)
        assert len(bank.booked) == 1
        await bus.kill(first)
        await bus.start(second)
        await bus.advance(25)
        receipt = await handle.receipt(0)
    assert (receipt.status, receipt.output, receipt.attempts) == (Status.SUCCESS, 1, 2)
    assert bank.booked == ["order-1"]


async def test_without_it_there_are_two() -> None:
    bank = Bank()

    def plain() -> Agent:
        agent = Agent("clerk-{instance}")

        @agent.capability("refund")
        async def refund(ctx: Context) -> int:
            return (await bank.book(ctx.key)).number

        return agent

    first, second = plain(), plain()
    async with TestReach(first) as bus:
        bus.backend_of(first).crash("settle", before=True)
        handle = await bus.send("refund", key="order-1")
        await bus.advance(0)
        await bus.kill(first)
        await bus.start(second)
        await bus.advance(25)
        assert (await handle.receipt(0)).attempts == 2, "the receipt says why"
    assert bank.booked == ["order-1"] * 2


async def test_a_slow_effect_ends_although_its_run_is_overdue_and_the_next_run_waits_for_it() -> None:
    bank, seen = Bank(), list[Any]()
    bank.open.clear()
    async with TestReach(clerk(bank, seen, max_process=10)) as bus:
        handle = await bus.send("refund", timeout=60)
        await bus.advance(14)  # overdue at 10, again 1 s later
        assert (await handle.status()).legs[0].attempts == 2
        bank.open.set()
        await bus.advance(2)
        receipt = await handle.receipt(0)
    assert (receipt.status, receipt.attempts) == (Status.SUCCESS, 2)
    assert len(bank.booked) == 1


async def test_an_effect_that_takes_longer_than_its_lease_is_made_once() -> None:
    """Its own run is long over, and two others wait for it."""
    bank, seen = Bank(), list[Any]()
    bank.open.clear()
    async with TestReach(clerk(bank, seen, max_process=10)) as bus:
        handle = await bus.send("refund", timeout=90)
        await bus.advance(40)
        assert (await handle.status()).legs[0].attempts >= 3
        assert len(bank.booked) == 1
        bank.open.set()
        await bus.advance(20)
        assert (await handle.receipt(0)).ok
    assert len(bank.booked) == 1


async def test_what_an_effect_raises_when_nobody_waits_for_it_any_more_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    go = asyncio.Event()
    calls: list[int] = []
    agent = Agent("clerk", max_process=10)

    async def book() -> int:
        calls.append(1)
        await go.wait()
        if len(calls) == 1:
            raise ConnectionError("refused")
        return 7

    @agent.capability("refund")
    async def refund(ctx: Context) -> Any:
        return await ctx.once("book", book)

    async with TestReach(agent) as bus:
        handle = await bus.send("refund", timeout=60)
        await bus.advance(14)  # overdue at 10
        go.set()
        await bus.advance(2)
        assert (await handle.receipt(0)).output == 7, "the guard is free for the next run"
    (record,) = [record for record in caplog.records if record.message.startswith("effect failed")]
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], ConnectionError)


async def test_the_guard_of_the_dead_is_free_when_his_lease_is_over() -> None:
    bank, seen = Bank(), list[Any]()
    bank.open.clear()
    first, second = clerk(bank, seen), clerk(bank, seen)
    async with TestReach(first) as bus:
        handle = await bus.send("refund", timeout=60)
        await bus.advance(0)
        await bus.kill(first)
        await bus.start(second)
        bank.open.set()
        await bus.advance(40)
        assert (await handle.receipt(0)).ok
    assert len(bank.booked) == 2, "whether the first one happened nobody can know: the docstring says so"


async def test_what_the_function_raises_comes_out_and_leaves_the_guard_free() -> None:
    calls: list[int] = []
    agent = Agent("clerk")

    def book() -> int:
        calls.append(1)
        if len(calls) == 1:
            raise ConnectionError("refused")
        return 7

    @agent.capability("refund")
    async def refund(ctx: Context) -> Any:
        try:
            return await ctx.once("book", book)
        except ConnectionError as error:
            raise Retry(after=1) from error

    async with TestReach(agent) as bus:
        handle = await bus.send("refund")
        await bus.advance(3)
        assert (await handle.receipt(0)).output == 7
    assert len(calls) == 2


async def test_two_calls_of_one_run_are_one_effect() -> None:
    bank = Bank()
    bank.open.clear()
    agent = Agent("clerk")

    @agent.capability("refund")
    async def refund(ctx: Context) -> list[int]:
        bookings = await asyncio.gather(*(ctx.once("book", bank.book, ctx.key) for _ in range(2)))
        return [booking.number for booking in bookings]

    async with TestReach(agent) as bus:
        handle = await bus.send("refund")
        await bus.advance(1)
        bank.open.set()
        await bus.advance(1)
        assert (await handle.receipt(0)).output == [1, 1]
    assert len(bank.booked) == 1


async def test_a_plain_function_runs_in_a_thread_and_a_lambda_may_return_a_coroutine() -> None:
    bank = Bank()
    agent = Agent("clerk")

    @agent.capability("refund")
    async def refund(ctx: Context) -> Any:
        where = await ctx.once("where", lambda: threading.current_thread().name)
        return where, await ctx.once("book", lambda: bank.book("k"))

    async with TestReach(agent) as bus:
        receipt = await bus.request("refund")
    assert receipt.output == ["reach-handler", {"number": 1}]


async def test_each_agent_of_a_broadcast_has_its_own() -> None:
    bank = Bank()

    def branch(name: str) -> Agent:
        agent = Agent(name, groups=("branches",))

        @agent.on("close.day")
        async def close(ctx: Context) -> int:
            booking: Booking = await ctx.once("book", bank.book, name)
            return booking.number

        return agent

    async with TestReach(branch("north"), branch("south")) as bus:
        handle = await bus.send("group:branches", type="close.day", scope="all")
        await bus.advance(1)
        assert [receipt.code for receipt in await handle.receipts(0)] == ["ok", "ok"]
    assert sorted(bank.booked) == ["north", "south"]


@pytest.mark.parametrize(("result", "said"), [(object(), "cannot be written"), ("x" * MAX_RESULT_BYTES, "bytes")])
async def test_a_result_that_cannot_be_kept_is_no_reason_to_make_the_effect_again(result: object, said: str) -> None:
    calls: list[int] = []
    refused: list[Reject] = []
    agent = Agent("clerk")

    def book() -> object:
        calls.append(1)
        return result

    @agent.capability("refund")
    async def refund(ctx: Context) -> Any:
        try:
            return await ctx.once("book", book)
        except Reject as error:
            refused.append(error)
            if len(refused) == 1:
                raise Retry(after=1) from error
            raise

    async with TestReach(agent) as bus:
        handle = await bus.send("refund")
        await bus.advance(3)
        receipt = await handle.receipt(0)
    assert (receipt.code, receipt.details["reject"]) == ("handler.rejected", "result_not_kept")
    assert said in str(receipt.error_message)
    assert (len(calls), len(refused)) == (1, 2)


@pytest.mark.parametrize("name", ["", "a b", "a/b", "x" * 65, ".a", "0:book"])
async def test_a_name_that_breaks_the_grammar_is_refused_before_anything_is_done(name: str) -> None:
    bank = Bank()
    agent = Agent("clerk")

    @agent.capability("refund")
    async def refund(ctx: Context) -> None:
        with pytest.raises(ValueError, match="once: the name"):
            await ctx.once(name, bank.book, "k")

    async with TestReach(agent) as bus:
        assert (await bus.request("refund")).ok
    assert bank.booked == []
