"""A caller that gives up cancels what it has started, and nothing that is not its own."""

import asyncio

import pytest

from reach import Agent, Context
from reach.backend.keys import KeySpace
from reach.errors import BackendDenied
from reach.sdk.client import Reach
from reach.testing import TestReach
from tests.unit.sdk.hanging import Agents, codes, given_up

# ---------------------------------------------------------------- request, ask, gather


async def test_a_request_whose_task_is_cancelled_is_cancelled() -> None:
    agents = Agents()
    async with TestReach(agents.worker) as bus:
        for ask in (bus.request, bus.ask):
            await given_up(bus, ask("worker", "x"))
        assert agents.began == agents.cancelled == ["x", "x"]
        assert set((await codes(bus)).values()) == {"cancelled"}
        assert bus.reach.outstanding == 0


async def test_a_broadcast_as_well_each_leg() -> None:
    agents = Agents()
    async with TestReach(agents.worker, agents.other) as bus:
        await given_up(bus, bus.request("capability:work", "x", scope="all"))
        assert agents.cancelled == ["x", "x"]
        assert list((await codes(bus)).values()) == ["cancelled,cancelled"]


async def test_in_whatever_partition_its_order_key_has_put_it() -> None:
    agents = Agents()
    bus = TestReach(agents.worker)
    bus.store.make_hash(KeySpace("dev").meta())["partitions"] = b"5"
    async with bus:
        for order_key in ("a", "b", "c", None):
            await given_up(bus, bus.request("worker", order_key or "x", order_key=order_key))
        assert agents.began == agents.cancelled == ["a", "b", "c", "x"]


async def test_a_wait_that_runs_out_is_a_caller_that_gives_up() -> None:
    agents = Agents()
    async with TestReach(agents.worker) as bus:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await bus.request("worker", "x")
        await bus.settle()
        assert agents.cancelled == ["x"]


async def test_one_that_no_router_has_seen_never_starts() -> None:
    agents = Agents()
    async with TestReach(agents.worker) as bus:
        await bus.stop_router()
        await given_up(bus, bus.request("worker", "x"))
        await bus.place._start()
        await bus.settle()
        assert agents.began == []
        assert list((await codes(bus)).values()) == ["cancelled"]


async def test_one_that_was_not_sent_leaves_nothing_behind() -> None:
    agents = Agents()
    async with TestReach(agents.worker) as bus:
        bus.client_backend.pause()
        await given_up(bus, bus.request("worker", "x"))
        bus.client_backend.resume()
        await bus.settle()
        assert bus.sent == []
        assert not any(":m:" in key for key in bus.store.keys())  # noqa: SIM118  no dict


async def test_one_whose_sending_was_not_acknowledged_is_cancelled_too() -> None:
    agents = Agents()
    async with TestReach(agents.worker) as bus:
        bus.client_backend.lose_reply("submit", times=50)
        await given_up(bus, bus.request("worker", "x"))
        assert agents.cancelled == ["x"]


async def test_the_cancellation_is_not_held_up_and_the_cancel_comes_when_redis_is_back() -> None:
    agents = Agents()
    async with TestReach(agents.worker) as bus:
        task = asyncio.ensure_future(bus.request("worker", "x"))
        await bus.settle()
        bus.client_backend.fail("cancel", times=3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert agents.cancelled == []
        await bus.advance(5)
        assert agents.cancelled == ["x"]


async def test_a_redis_that_refuses_the_cancel_is_asked_once() -> None:
    agents = Agents()
    async with TestReach(agents.worker) as bus:
        bus.client_backend.fail("cancel", error=BackendDenied("no"), times=9)
        await given_up(bus, bus.request("worker", "x"))
        await bus.advance(5)
        assert bus.client_backend.calls.count("cancel") == 1
        assert agents.cancelled == []


async def test_what_has_ended_is_not_cancelled() -> None:
    agent = Agent("quick")

    @agent.capability("work")
    async def work() -> str:
        return "done"

    async with TestReach(agent) as bus:
        task = asyncio.ensure_future(bus.request("quick"))
        await bus.settle()
        assert task.done()
        task.cancel()
        assert (await task).ok
        assert "cancel" not in bus.client_backend.calls


async def test_a_send_is_left_alone() -> None:
    agents = Agents()
    async with TestReach(agents.worker) as bus:
        handle = await bus.send("worker", "x")
        await given_up(bus, handle.receipt())
        assert (await handle.status()).state == "open"
        assert agents.cancelled == []


# ---------------------------------------------------------------- what others may wait for


async def test_a_key_goes_on_and_whoever_asks_again_gets_the_answer() -> None:
    agent, go = Agent("worker"), asyncio.Event()
    runs: list[str] = []

    @agent.capability("work")
    async def work(body: str, ctx: Context) -> str:
        runs.append(ctx.msg_id)
        await go.wait()
        return body

    async with TestReach(agent) as bus:
        await given_up(bus, bus.request("worker", "x", key="order-1"))
        assert "cancel" not in bus.client_backend.calls
        again = asyncio.ensure_future(bus.request("worker", "x", key="order-1"))
        await bus.settle()
        go.set()
        assert (await again).output == "x"
        assert len(runs) == 1


async def test_of_two_who_wait_for_a_key_one_may_give_up() -> None:
    agents = Agents()
    async with TestReach(agents.worker) as bus:
        other = asyncio.ensure_future(bus.request("worker", "x", key="order-1", timeout=5))
        await given_up(bus, bus.request("worker", "x", key="order-1"))
        assert agents.cancelled == []
        await bus.advance(6)
        assert (await other).code == "timeout.total"


async def test_a_key_is_cancelled_by_its_handle() -> None:
    agents = Agents()
    async with TestReach(agents.worker) as bus:
        await given_up(bus, bus.request("worker", "x", key="order-1"))
        handle = await bus.send("worker", "x", key="order-1")
        assert await handle.cancel()
        await bus.advance(0.1)
        assert agents.cancelled == ["x"]


# ---------------------------------------------------------------- gather


async def test_a_gather_that_is_given_up_is_cancelled_with_all_that_is_open() -> None:
    agents = Agents()
    async with TestReach(agents.worker, agents.other) as bus:

        async def ask() -> None:
            await bus.gather(["worker", "other"], "x")

        async def ask_all() -> None:
            async for _ in bus.gather("capability:work", "x"):
                raise AssertionError("nobody answers")

        for waiting in (ask(), ask_all()):
            await given_up(bus, waiting)
        assert agents.cancelled == ["x"] * 4
        assert bus.reach.outstanding == 0


async def test_a_gather_that_is_given_up_before_it_is_sent_never_starts() -> None:
    agents = Agents()
    async with TestReach(agents.worker, agents.other) as bus:

        async def ask() -> None:
            await bus.gather(["worker", "other"], "x")

        bus.client_backend.pause()
        await given_up(bus, ask())
        bus.client_backend.resume()
        await bus.advance(1)
        assert agents.began == []
        assert set((await codes(bus)).values()) <= {"cancelled"}
        assert bus.reach.outstanding == 0


async def test_a_gather_goes_on_while_somebody_else_waits_for_it() -> None:
    agents = Agents()
    async with TestReach(agents.worker) as bus:
        group = bus.gather(["worker"], "x")
        other = asyncio.ensure_future(group.receipts())
        await given_up(bus, group.receipts())
        assert agents.cancelled == []
        await given_up(bus, other)
        assert agents.cancelled == ["x"]
        assert (await group)[0].code == "cancelled"


async def test_leaving_an_iteration_or_a_wait_that_is_over_gives_nothing_up() -> None:
    agents = Agents()
    quick = Agent("quick")

    @quick.capability("now")
    async def now() -> str:
        return "done"

    async with TestReach(agents.worker, quick) as bus:
        group = bus.gather(["worker", "quick"], "x")
        async for receipt in group:
            assert receipt.output == "done"
            break
        await bus.settle()
        assert agents.cancelled == []
        assert "cancel" not in bus.client_backend.calls


# ---------------------------------------------------------------- total over, close


async def test_a_total_that_is_over_while_the_message_may_go_on_cancels_it() -> None:
    """The ledger cannot be asked in time, and comes back later."""
    agents = Agents()
    async with TestReach(agents.worker) as bus:
        await bus.stop_router()
        task = asyncio.ensure_future(bus.request("worker", "x", timeout=2))
        await bus.settle()
        for step in ("due", "inspect", "read_mail"):
            bus.client_backend.fail(step, times=99)
        await bus.advance(2.3)
        assert (await task).code == "timeout.total"
        await bus.place._start()
        await bus.advance(1)
        assert bus.client_backend.calls.count("cancel") == 1
        assert agents.began == []


async def test_a_client_that_is_closed_cancels_what_it_waits_for_and_leaves_the_rest() -> None:
    agents = Agents()
    async with TestReach(agents.worker) as bus:
        reach = Reach(bus.place, agent_id="closer")
        await reach.start()
        waiting = [
            asyncio.ensure_future(reach.request("worker", body, key=key)) for body, key in (("x", None), ("y", "k"))
        ]
        await reach.send("worker", "z")
        await bus.settle()
        await reach.close()
        await bus.advance(0.1)
        assert [(await one).code for one in waiting] == ["backend.unavailable"] * 2
        assert agents.cancelled == ["x"]


async def test_closing_waits_for_the_cancels_a_second_at_most() -> None:
    agents = Agents()
    async with TestReach(agents.worker) as bus:
        reach = Reach(bus.place, agent_id="closer")
        backend = bus.newest
        await reach.start()
        waiting = asyncio.ensure_future(reach.request("worker", "x"))
        await bus.settle()
        backend.fail("cancel", times=999)  # and the clock of its pauses stands still
        await reach.close()
        assert (await waiting).code == "backend.unavailable"
        assert agents.cancelled == []
