"""ctx.once: an effect is made once, and every later run of its message is told what came of it."""

import asyncio
import threading
from typing import Any

import msgspec
import pytest

from reach import Agent, Context, Reject, Retry, Status
from reach.errors import BackendUnavailable
from reach.sdk.effects import MAX_RESULT_BYTES
from reach.testing import TestReach


class Booking(msgspec.Struct):
    number: int


class Bank:
    """What is outside, where an effect cannot be taken back."""

    def __init__(self) -> None:
        self.booked: list[str] = []
        self.open = asyncio.Event()
        self.open.set()

    async def book(self, key: str) -> Booking:
        self.booked.append(key)
        await self.open.wait()
        return Booking(len(self.booked))


def clerk(bank: Bank, seen: list[Any], problems: list[BaseException] | None = None, **options: Any) -> Agent:
    """Books once, and then may fail."""
    agent = Agent("clerk-{instance}", **options)

    @agent.capability("refund")
    async def refund(ctx: Context) -> int:
        booking = await ctx.once("book", bank.book, ctx.key)
        seen.append(booking)
        if problems:
            raise problems.pop()
        return int(booking.number)

    return agent


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


async def test_the_result_is_written_down_although_redis_is_away_for_a_moment() -> None:
    bank, seen = Bank(), list[Any]()
    agent = clerk(bank, seen, [Retry(after=0)])
    async with TestReach(agent) as bus:
        bus.backend_of(agent).fail("once_end", error=BackendUnavailable("away"), times=3)
        bus.backend_of(agent).fail("once_take", before=False, error=BackendUnavailable("swallowed"))
        handle = await bus.send("refund")
        await bus.advance(5)
        assert (await handle.receipt(0)).ok
    assert len(bank.booked) == 1


async def test_a_run_whose_message_has_gone_to_another_makes_no_effect() -> None:
    bank, seen = Bank(), list[Any]()
    go = asyncio.Event()
    agent = Agent("clerk")

    @agent.capability("refund")
    async def refund(ctx: Context) -> None:
        try:
            await go.wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)  # one that does not listen
        seen.append(ctx.attempt)
        await ctx.once("book", bank.book, "k")

    async with TestReach(agent) as bus:
        handle = await bus.send("refund")
        await bus.advance(0)
        await handle.cancel()
        await bus.advance(6)
        assert (await handle.receipt(0)).code == "cancelled"
    assert seen == [1]
    assert bank.booked == []


async def test_a_graceful_stop_waits_for_the_effect() -> None:
    bank, seen = Bank(), list[Any]()
    bank.open.clear()
    agent, other = clerk(bank, seen, max_process=5), clerk(bank, seen)
    async with TestReach(agent) as bus:
        handle = await bus.send("refund", timeout=60)
        await bus.advance(5.5)  # overdue: its run is given up, its effect is not
        (run,) = agent.instances
        stopping = asyncio.create_task(run.stop(10_000))
        await bus.start(other)
        await bus.advance(1)
        assert not stopping.done()
        bank.open.set()
        await bus.advance(5)
        await stopping
        assert (await handle.receipt(0)).ok
    assert len(bank.booked) == 1


async def test_a_renewal_that_is_under_way_does_not_set_a_freed_guard_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its step comes after the one that frees the guard only where nobody waits for it; the next run would wait for a lease of nobody."""
    bank = Bank()
    bank.open.clear()
    agent = Agent("clerk")
    calls: list[int] = []

    async def book() -> int:
        calls.append(1)
        if len(calls) == 1:
            await bank.open.wait()
            raise ConnectionError("refused")
        return 7

    @agent.capability("refund")
    async def refund(ctx: Context) -> int:
        try:
            booked: int = await ctx.once("book", book)
        except ConnectionError as error:
            raise Retry(after=0) from error
        return booked

    async with TestReach(agent) as bus:
        handle = await bus.send("refund")
        await bus.advance(4.9)
        backend = agent.instances[0].backend
        take, renewals = backend.once_take, []

        async def slowly(*args: Any) -> Any:
            renewals.append(args)
            bank.open.set()  # while it is on its way, the effect fails
            for _ in range(50):
                await asyncio.sleep(0)
            return await take(*args)

        monkeypatch.setattr(backend, "once_take", slowly)
        await bus.advance(2)
        assert renewals
        assert (await handle.receipt(0)).output == 7
    assert len(calls) == 2


async def test_a_cancellation_that_the_function_raises_itself_leaves_the_guard_free() -> None:
    calls: list[int] = []
    agent = Agent("clerk")

    async def book() -> int:
        calls.append(1)
        if len(calls) == 1:
            raise asyncio.CancelledError("of something inside")
        return 7

    @agent.capability("refund")
    async def refund(ctx: Context) -> int:
        booked: int = await ctx.once("book", book)
        return booked

    async with TestReach(agent) as bus:
        handle = await bus.send("refund")
        await bus.advance(3)
        assert (await handle.receipt(0)).output == 7


async def test_what_a_living_process_knows_is_written_down_however_long_redis_is_away() -> None:
    bank, seen = Bank(), list[Any]()
    bank.open.clear()
    agent = clerk(bank, seen, max_process=60)
    async with TestReach(agent) as bus:
        handle = await bus.send("refund", timeout=120)
        await bus.advance(1)
        for step in ("once_end", "once_take"):
            bus.backend_of(agent).fail(step, error=BackendUnavailable("away"), times=20)
        bank.open.set()
        await bus.advance(25)
        assert not seen, "longer than the lease of the guard"
        await bus.advance(60)
        assert (await handle.receipt(0)).ok
    assert len(bank.booked) == 1
