"""What an agent runs and what it holds: the one never outlives the other."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from reach.backend.port import Backend
from reach.delivery.inbox import Hold, Inbox, hold_of
from reach.envelope.records import encode_registration
from reach.envelope.registration import Capability, Registration
from reach.sdk.handlers import Handlers, read_handler
from reach.sdk.runs import Runs
from reach.testing import TestReach


class Bench:
    """Runs over an inbox, without the agent around them: what is taken, the test takes."""

    def __init__(self, bus: TestReach, backend: Backend) -> None:
        self.bus = bus
        self.backend = backend
        self.inbox = Inbox(backend, "one", "i1", bus.clock)
        self.handlers = Handlers()
        self.runs = Runs(
            backend=backend,
            inbox=self.inbox,
            handlers=self.handlers,
            origin=bus.reach.origin,
            recorder=bus.reach.recorder,
            host="h",
            clock=bus.clock,
            on_change=lambda: None,
        )

    def handle(self, function: Callable[[], Awaitable[None]]) -> None:
        self.handlers.add(read_handler(function, type="request", capability="work"))

    async def send(self) -> None:
        await self.bus.send("capability:work")
        await self.bus.settle()


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with TestReach() as bus:
        backend = bus.place.backend()
        await backend.open()
        await backend.open_inbox(0, "one")
        declared = Registration(agent_id="one", instance_id="i1", capabilities=(Capability(name="work"),))
        assert (await backend.register("one", encode_registration(declared), "i1", b"{}", None)).ok
        await bus.settle()
        made = Bench(bus, backend)
        yield made
        await made.runs.close()
        await backend.close()


async def test_a_lost_hand_that_nobody_runs_is_held_no_longer(bench: Bench) -> None:
    await bench.send()
    (taken,) = await bench.inbox.take(1)
    bench.runs.lost(Hold(0, "normal", "99-9"))
    assert bench.inbox.holds() == {0: {"normal": [taken.hand]}}
    bench.runs.lost(hold_of(taken))
    assert bench.inbox.holds() == {}


async def test_work_that_comes_again_while_its_run_is_given_up_is_not_held_for_ever(bench: Bench) -> None:
    stuck, go = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        try:
            await stuck.wait()
        except asyncio.CancelledError:
            await go.wait()  # a handler that does not end when it is told to
            raise

    bench.handle(work)
    await bench.send()
    (taken,) = await bench.inbox.take(1)
    bench.runs.start(taken)
    await bench.bus.settle()
    bench.runs.lost(hold_of(taken))
    await bench.bus.settle()
    assert bench.inbox.holds() == {}
    bench.inbox.connection_lost()
    (again,) = await bench.inbox.take(1)
    assert again.hand == taken.hand
    bench.runs.start(again)
    assert bench.inbox.holds() == {}
    assert len(bench.runs) == 1
    go.set()
    await bench.bus.settle()
    assert len(bench.runs) == 0


async def test_work_that_comes_twice_while_it_runs_stays_held(bench: Bench) -> None:
    stuck = asyncio.Event()

    async def work() -> None:
        await stuck.wait()

    bench.handle(work)
    await bench.send()
    (taken,) = await bench.inbox.take(1)
    bench.runs.start(taken)
    await bench.bus.settle()
    bench.runs.start(taken)
    assert bench.inbox.holds() == {0: {"normal": [taken.hand]}}


async def test_two_messages_of_one_moment_in_two_lanes_both_run(bench: Bench) -> None:
    """Ids are unique within a stream only: what is routed to two lanes in one millisecond has the same hand."""
    ran = 0

    async def work() -> None:
        nonlocal ran
        ran += 1

    bench.handle(work)
    await bench.bus.send("capability:work", priority=9)
    await bench.bus.send("capability:work", priority=5)
    await bench.bus.settle()
    high, normal = await bench.inbox.take(2)
    assert (high.lane, normal.lane, high.hand) == ("high", "normal", normal.hand)
    assert bench.inbox.holds() == {0: {"high": [high.hand], "normal": [normal.hand]}}
    bench.runs.start(high)
    bench.runs.start(normal)
    await bench.bus.settle()
    assert ran == 2
    bench.inbox.forget(hold_of(high))
    assert bench.inbox.holds() == {0: {"normal": [normal.hand]}}


async def test_a_leg_whose_earlier_run_has_not_ended_is_given_back_and_burns_nothing(bench: Bench) -> None:
    """Under a new hand: the ledger has taken the first one away, and its handler goes on all the same."""
    ran, go = 0, asyncio.Event()

    async def work() -> None:
        nonlocal ran
        ran += 1
        try:
            await asyncio.Event().wait()
        finally:
            if ran == 1:
                await go.wait()

    bench.handle(work)
    await bench.send()
    (first,) = await bench.inbox.take(1)
    bench.runs.start(first)
    await bench.bus.settle()
    await bench.bus.advance(10)
    await bench.backend.beat("one", "i1", b"{}")
    await bench.bus.advance(9)  # nobody renews it: the lease is over, and within a second a router sends it again
    await bench.inbox.run_once()  # its own end at its processing time, which comes too late
    (second,) = await bench.inbox.take(1)
    assert (second.msg_id, second.attempt) == (first.msg_id, 2)
    assert second.hand != first.hand
    bench.runs.start(second)
    await bench.bus.settle()
    alone = (ran, len(bench.runs))
    go.set()
    assert alone == (1, 1)
    await bench.inbox.run_once()
    assert bench.inbox.holds() == {}
    await bench.backend.beat("one", "i1", b"{}")
    await bench.bus.advance(2)
    (third,) = await bench.inbox.take(1)
    assert (third.msg_id, third.attempt) == (first.msg_id, 2)
    bench.runs.start(third)
    await bench.bus.settle()
    assert ran == 2
