"""A run that is over without a result gives up what it has asked for, down to the last; what is not its alone goes on."""

import asyncio
import itertools
import threading
from collections.abc import Callable
from typing import Any

import pytest

from reach import Agent, Context, Reject, Retry
from reach.errors import BackendUnavailable
from reach.testing import TestReach
from tests.unit.sdk.hanging import Agents, codes


async def test_what_a_cancelled_handler_has_asked_for_is_cancelled_down_to_the_last() -> None:
    agents = Agents()
    chain = ["first", "second", "third", "worker"]

    def asking(name: str, next_one: str) -> Agent:
        agent = Agent(name)

        @agent.capability(f"{name}.ask")
        async def ask(body: str, ctx: Context) -> Any:
            return await ctx.ask(next_one, body)

        return agent

    links = [asking(name, next_one) for name, next_one in itertools.pairwise(chain)]
    async with TestReach(*links, agents.worker) as bus:
        handle = await bus.send("first", "x")
        await bus.settle()
        assert agents.began == ["x"]
        assert await handle.cancel()
        await bus.advance(0.5)
        assert agents.cancelled == ["x"]
        assert list((await codes(bus)).values()) == ["cancelled"] * 4


async def test_also_what_it_does_not_wait_for_at_this_moment() -> None:
    tasks: list[asyncio.Task[Any]] = []

    async def parent(body: Any, ctx: Context) -> None:
        ctx.gather(["worker", "worker"], "gathered")
        tasks.append(asyncio.create_task(ctx.request("worker", "beside")))
        await asyncio.Event().wait()

    agents = Agents(parent)
    async with TestReach(agents.parent, agents.worker) as bus:
        handle = await bus.send("parent")
        await bus.settle()
        assert len(agents.began) == 3
        await handle.cancel()
        await bus.advance(0.5)
        assert sorted(agents.cancelled) == ["beside", "gathered", "gathered"]
        assert (await tasks[0]).code == "cancelled"


async def test_what_it_has_sent_goes_on_and_so_does_what_has_a_key() -> None:
    async def parent(body: Any, ctx: Context) -> None:
        await ctx.send("worker", "sent")
        await ctx.request("worker", "keyed", key="order-1")

    agents = Agents(parent)
    async with TestReach(agents.parent, agents.worker) as bus:
        handle = await bus.send("parent")
        await bus.settle()
        await handle.cancel()
        await bus.advance(0.5)
        assert sorted(agents.began) == ["keyed", "sent"]
        assert agents.cancelled == []


async def test_a_run_that_is_overdue_gives_up_its_children() -> None:
    async def parent(body: Any, ctx: Context) -> None:
        await ctx.request("worker", ctx.attempt, timeout=60)

    agents = Agents(parent)
    async with TestReach(agents.parent, agents.worker) as bus:
        await bus.send("parent", max_attempts=1, timeout=60)
        await bus.advance(15.2)
        assert agents.cancelled == [1]


async def test_a_run_that_is_lost_gives_up_its_children_and_the_next_one_asks_anew() -> None:
    async def parent(body: Any, ctx: Context) -> None:
        await ctx.request("worker", ctx.attempt, timeout=60)

    agents = Agents(parent)
    async with TestReach(agents.parent, agents.worker) as bus:
        await bus.send("parent", timeout=60)
        await bus.settle()
        await bus.pause(agents.parent)
        await bus.start(agents.parent)
        await bus.advance(20)
        assert agents.began == [1, 2]
        await bus.resume(agents.parent)
        await bus.advance(1)
        assert agents.cancelled == [1]


async def test_a_run_that_a_stop_cuts_off_gives_up_its_children_and_goes_on_elsewhere() -> None:
    async def parent(body: Any, ctx: Context) -> None:
        await ctx.request("worker", ctx.attempt, timeout=60)

    agents = Agents(parent)
    async with TestReach(agents.parent, agents.worker) as bus:
        handle = await bus.send("parent", timeout=60)
        await bus.settle()
        (stopped,) = agents.parent.instances
        await bus.start(agents.parent)
        stopping = asyncio.ensure_future(stopped.stop(1_000))
        await bus.advance(1.1)
        await stopping
        await bus.advance(1)
        assert agents.began == [1, 1]  # the second run burnt no attempt, and has asked anew
        assert agents.cancelled == [1]
        assert (await handle.status()).legs[0].attempts == 1


async def test_a_killed_agent_cancels_nothing() -> None:
    async def parent(body: Any, ctx: Context) -> None:
        await ctx.request("worker", "x", timeout=60)

    agents = Agents(parent)
    async with TestReach(agents.parent, agents.worker) as bus:
        await bus.send("parent", timeout=60)
        await bus.settle()
        await bus.kill(agents.parent)
        await bus.advance(1)
        assert agents.cancelled == []


async def test_a_handler_may_still_ask_for_something_while_it_is_cancelled() -> None:
    """Such as to take back what it has begun."""
    undone: list[str] = []
    undo = Agent("undo")

    @undo.capability("undo")
    async def take_back(body: str) -> str:
        undone.append(body)
        return "undone"

    async def parent(body: Any, ctx: Context) -> None:
        try:
            await ctx.request("worker", "x")
        except asyncio.CancelledError:
            undone.append(await ctx.ask("undo", "order-1", returns=str))
            raise

    agents = Agents(parent)
    async with TestReach(agents.parent, agents.worker, undo) as bus:
        handle = await bus.send("parent")
        await bus.settle()
        await handle.cancel()
        await bus.advance(0.5)
        assert undone == ["order-1", "undone"]
        assert agents.cancelled == ["x"]


async def test_an_effect_goes_on_with_what_it_has_asked_for() -> None:
    bank, paid, go = Agent("bank"), [], asyncio.Event()

    @bank.capability("pay")
    async def pay(body: str) -> str:
        await go.wait()
        paid.append(body)
        return "paid"

    async def parent(body: Any, ctx: Context) -> Any:
        async def book() -> Any:
            return (await ctx.request("bank", "12.50")).output

        return await ctx.once("book", book)

    agents = Agents(parent)
    async with TestReach(agents.parent, bank) as bus:
        handle = await bus.send("parent")
        await bus.settle()
        await handle.cancel()
        await bus.advance(0.5)
        go.set()
        await bus.settle()
        assert paid == ["12.50"]
        assert any(":once:" in key for key in bus.store.keys())  # noqa: SIM118  no dict


async def test_a_handler_in_a_thread_sees_that_it_is_cancelled() -> None:
    began, seen = threading.Event(), threading.Event()
    agent = Agent("worker")

    @agent.capability("work")
    def work(body: Any, ctx: Context) -> None:
        began.set()
        while not ctx.cancelled:
            pass
        seen.set()

    async with TestReach(agent) as bus:
        handle = await bus.send("worker")
        while not began.is_set():
            await asyncio.sleep(0)
        await handle.cancel()
        while not seen.is_set():
            await asyncio.sleep(0)
        await bus.settle()
        assert (await handle.receipt(0)).code == "cancelled"


async def test_a_run_that_succeeds_leaves_alone_what_it_did_not_wait_for() -> None:
    async def parent(body: Any, ctx: Context) -> str:
        ctx.gather(["worker"], "x")
        return "done"

    agents = Agents(parent)
    async with TestReach(agents.parent, agents.worker) as bus:
        await bus.send("parent")
        await bus.advance(1)
        assert agents.began == ["x"]
        assert agents.cancelled == []


def _raise(error: BaseException) -> None:
    raise error


@pytest.mark.parametrize(
    "end",
    [
        lambda: _raise(ValueError("no")),
        lambda: _raise(Retry(after=20)),
        lambda: _raise(Reject("no")),
        lambda: _raise(asyncio.CancelledError()),
        object,  # what cannot travel
    ],
    ids=["error", "retry", "reject", "cancelled by itself", "no result"],
)
async def test_a_run_that_ends_without_a_success_gives_up_what_it_has_asked_for(end: Callable[[], object]) -> None:
    async def parent(body: Any, ctx: Context) -> object:
        ctx.gather(["worker"], "x")
        await asyncio.sleep(0)
        await ctx.alive()
        return end()

    agents = Agents(parent)
    async with TestReach(agents.parent, agents.worker) as bus:
        await bus.send("parent", max_attempts=1)
        await bus.advance(1)
        assert agents.began in ([], ["x"])  # it may have been cancelled before anybody took it
        assert agents.cancelled == agents.began
        assert set((await codes(bus)).values()) > {"cancelled"}


async def test_runs_of_one_message_never_have_children_side_by_side() -> None:
    async def parent(body: Any, ctx: Context) -> None:
        await asyncio.gather(ctx.ask("worker", ctx.attempt, timeout=100), ctx.ask("bad"))

    agents, bad = Agents(parent), Agent("bad")

    @bad.capability("fail")
    async def fail(body: Any) -> None:
        raise Reject("no")

    async with TestReach(agents.parent, agents.worker, bad) as bus:
        handle = await bus.send("parent", max_attempts=3, timeout=100)
        await bus.advance(0.5)
        assert (agents.began, agents.cancelled) == ([1], [1])
        await bus.advance(10)
        assert (agents.began, agents.cancelled) == ([1, 2, 3], [1, 2, 3])
        assert (await handle.receipt(0)).code == "handler.error"


async def test_a_run_that_ends_while_redis_is_away_cancels_its_children_later() -> None:
    async def parent(body: Any, ctx: Context) -> None:
        await ctx.request("worker", "x")

    agents = Agents(parent)
    async with TestReach(agents.parent, agents.worker) as bus:
        handle = await bus.send("parent")
        await bus.settle()
        bus.backend_of(agents.parent).fail("cancel", error=BackendUnavailable("away"), times=2)
        await handle.cancel()
        await bus.advance(3)
        assert agents.cancelled == ["x"]
