"""A running handler hears of its cancel at once; where the hint is lost, or says nothing true, only time is lost."""

import asyncio

from reach import Agent, Context
from reach.backend.hinting import written
from reach.backend.keys import KeySpace
from reach.errors import BackendDenied
from reach.testing import TestReach

KEYS = KeySpace("dev")


class Worker:
    """Runs until it is cancelled."""

    def __init__(self) -> None:
        self.began: list[str] = []
        self.cancelled: list[str] = []
        self.agent = Agent("worker")

        @self.agent.capability("work")
        async def work(body: object, ctx: Context) -> str:
            self.began.append(ctx.msg_id)
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled.append(ctx.msg_id)
            return ""


async def test_a_running_handler_is_cancelled_at_once() -> None:
    worker = Worker()
    async with TestReach(worker.agent) as bus:
        one, other = await bus.send("work"), await bus.send("work")
        await bus.settle()
        assert await one.cancel()
        await bus.settle()
        assert worker.cancelled == [one.msg_id]
        assert (await one.receipt(0)).code == "cancelled"
        assert (await other.status()).state == "open"


async def test_cancels_that_come_together_are_seen_within_a_tenth_of_a_second() -> None:
    worker = Worker()
    async with TestReach(worker.agent) as bus:
        handles = [await bus.send("work") for _ in range(8)]
        await bus.settle()
        for handle in handles:
            assert await handle.cancel()
            await bus.settle()
        await bus.advance(0.1)
        assert sorted(worker.cancelled) == sorted(handle.msg_id for handle in handles)


async def test_a_lost_hint_costs_time_until_the_next_renewal() -> None:
    worker = Worker()
    async with TestReach(worker.agent) as bus:
        bus.backend_of(worker.agent).fail("hear", error=BackendDenied("no channels"))
        await bus.advance(6)  # the listener has heard that it may not
        handle = await bus.send("work")
        await bus.settle()
        assert await handle.cancel()
        await bus.advance(0.1)
        assert worker.cancelled == []
        await bus.advance(5)
        assert worker.cancelled == [handle.msg_id]


async def test_a_forged_hint_costs_a_look() -> None:
    worker = Worker()
    async with TestReach(worker.agent) as bus:
        handle = await bus.send("work")
        await bus.settle()
        record = await bus.client_backend.backend.inspect(0, handle.msg_id)
        assert record is not None
        calls = bus.backend_of(worker.agent).calls
        before = calls.count("renew")
        channel = KEYS.hint(0, "worker")
        for data in (
            written("normal", record.legs[0].hand),
            written("low", record.legs[0].hand),
            written("high", "1-1"),
        ):
            bus.store.say(channel, data)
        await bus.settle()
        assert calls.count("renew") == before + 1
        assert worker.cancelled == []
        assert await handle.cancel()
        await bus.advance(0.1)
        assert worker.cancelled == [handle.msg_id]


async def test_a_flood_of_forged_hints_is_asked_about_at_a_pace() -> None:
    worker = Worker()
    async with TestReach(worker.agent) as bus:
        handle = await bus.send("work")
        await bus.settle()
        record = await bus.client_backend.backend.inspect(0, handle.msg_id)
        assert record is not None
        calls = bus.backend_of(worker.agent).calls
        before = calls.count("renew")
        for _ in range(100):
            bus.store.say(KEYS.hint(0, "worker"), written("normal", record.legs[0].hand))
            await bus.advance(0.001)
        assert calls.count("renew") - before <= 5
