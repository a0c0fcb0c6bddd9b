"""ctx.once where something goes wrong: Redis away, a run that is lost, a stop, a function that cancels itself."""

import asyncio
from typing import Any

import pytest

from reach import Agent, Context, Retry
from reach.errors import BackendUnavailable
from reach.testing import TestReach
from tests.unit.sdk.bank import Bank, clerk


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
        take, end, renewals = backend.once_take, backend.once_end, list[asyncio.Task[Any]]()
        freed = asyncio.Event()

        async def ending(*args: Any) -> bool:
            ended = await end(*args)
            freed.set()
            return ended

        async def slow(*args: Any) -> Any:
            bank.open.set()  # while it is on its way, the effect fails
            for _ in range(50):
                if not freed.is_set():
                    await asyncio.sleep(0)
            return await take(*args)

        async def slowly(*args: Any) -> Any:
            """What is on its way to a server is done there, also when nobody waits for it any more."""
            renewals.append(asyncio.create_task(slow(*args)))
            return await asyncio.shield(renewals[-1])

        monkeypatch.setattr(backend, "once_take", slowly)
        monkeypatch.setattr(backend, "once_end", ending)
        await bus.advance(2)
        assert await asyncio.gather(*renewals)
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
