"""One inbox over several partitions: high first and low never starved over all of them, and never more in hand than there are slots."""

import asyncio
import itertools
from collections.abc import AsyncIterator

import pytest

from reach import Agent, Context
from reach.backend.keys import KeySpace
from reach.delivery.inbox import Inbox
from reach.delivery.lanes import LaneOrder, Next
from reach.envelope.records import encode_registration
from reach.envelope.registration import Capability, Registration
from reach.envelope.rules import business_msg_id, partition_of
from reach.errors import BackendUnavailable
from reach.testing import FaultyBackend, TestReach

PRIORITIES = {"high": 9, "normal": 5, "low": 1}


class Desk:
    """An inbox without an agent around it, in an env of so many partitions."""

    def __init__(self, bus: TestReach, backend: FaultyBackend, count: int) -> None:
        self.bus, self.backend, self.count = bus, backend, count
        self.inbox = Inbox(backend.backend, "one", "i1", bus.clock)
        self._keys = map(str, itertools.count())

    async def send(self, lane: str, partition: int = 0) -> None:
        """A message of this lane, in this partition."""
        found = partition % self.count
        ids = ((key, business_msg_id("dev", "test", key)) for key in self._keys)
        key = next(key for key, msg_id in ids if partition_of(msg_id, None, self.count) == found)
        await self.bus.send("capability:work", key=key, priority=PRIORITIES[lane], timeout=600, ttl=600)
        await self.bus.settle()

    async def lanes(self, calls: int, free: int = 1) -> list[str]:
        """The lanes of what so many takes have given."""
        return [taken.lane for _ in range(calls) for taken in await self.inbox.take(free)]


@pytest.fixture(params=[1, 4])
async def desk(request: pytest.FixtureRequest) -> AsyncIterator[Desk]:
    count: int = request.param
    async with _bus_of(count) as bus:
        backend = FaultyBackend(bus.place.backend())
        await backend.backend.open()
        for partition in range(count):
            await backend.backend.open_inbox(partition, "one")
        declared = Registration(
            agent_id="one", instance_id="i1", capabilities=(Capability(name="work"),), partitions=count
        )
        assert (await backend.backend.register("one", encode_registration(declared), "i1", b"{}", None)).ok
        await bus.settle()
        yield Desk(bus, backend, count)
        await backend.backend.close()


def _bus_of(count: int, *agents: Agent) -> TestReach:
    bus = TestReach(*agents)
    bus.store.make_hash(KeySpace("dev").meta())["partitions"] = str(count).encode()
    return bus


async def test_high_comes_first_wherever_it_lies(desk: Desk) -> None:
    for lane, partition in (("low", 0), ("normal", 1), ("normal", 2), ("high", 3), ("high", 0)):
        await desk.send(lane, partition)
    assert await desk.lanes(5) == ["high", "high", "normal", "normal", "low"]


async def test_high_comes_first_also_where_many_are_taken_at_once(desk: Desk) -> None:
    for lane, partition in (("low", 0), ("normal", 0), ("normal", 1), ("high", 2), ("high", 3)):
        await desk.send(lane, partition)
    assert await desk.lanes(1, free=3) == ["high", "high", "normal"]
    assert await desk.lanes(1, free=10) == ["normal", "low"]


@pytest.mark.parametrize("of", range(4))
async def test_every_eighth_is_of_the_lowest_lane_in_whichever_partition_it_lies(desk: Desk, of: int) -> None:
    """One slot, and always something higher everywhere."""
    await desk.send("low", of)
    lanes = []
    for turn in range(8):
        for partition in range(desk.count):
            await desk.send("high", partition + turn)
        lanes += await desk.lanes(1)
    assert lanes == ["high"] * 7 + ["low"]


async def test_no_partition_waits_for_another_ones_lane_to_be_empty(desk: Desk) -> None:
    """Neither within high nor within the share of low."""
    for partition in range(4):
        for _ in range(16):
            await desk.send("high", partition)
        await desk.send("low", partition)
        await desk.send("low", partition)
    taken = [one for _ in range(32) for one in await desk.inbox.take(1)]
    low, high = ([one.partition for one in taken if one.lane == lane] for lane in ("low", "high"))
    assert (len(low), len(high)) == (4, 28)
    assert set(low) == set(high) == set(range(desk.count))
    counts = [high.count(partition) for partition in range(desk.count)]
    assert max(counts) - min(counts) <= 1


@pytest.mark.parametrize("free", [1, 2, 5])
async def test_never_more_than_the_free_slots_over_lanes_and_partitions(desk: Desk, free: int) -> None:
    for partition in range(4):
        for lane in PRIORITIES:
            await desk.send(lane, partition)
    assert len(await desk.inbox.take(free)) == free
    pending = [await desk.backend.backend.waiting("one")]
    assert sum(map(len, pending[0].values())) >= 3 - (desk.count == 1)
    assert len(await desk.inbox.take(12)) == 12 - free
    assert await desk.inbox.take(12) == []


async def test_what_comes_again_after_a_lost_connection_is_not_behind_a_steady_load(desk: Desk) -> None:
    await desk.send("normal", 2)
    desk.backend.lose_reply("take")
    with pytest.raises(BackendUnavailable):
        await desk.inbox.take(1)
    for partition in range(4):
        await desk.send("high", partition)
    lanes = await desk.lanes(desk.count)
    assert "normal" in lanes


async def test_an_inbox_that_is_gone_in_one_partition_is_opened_again(desk: Desk) -> None:
    for key in [key for key in desk.bus.store.keys() if ":inbox:one:" in key]:  # noqa: SIM118 - a store, no dict
        desk.bus.store.delete(key)
    assert await desk.lanes(1, free=5) == []
    for partition in range(4):
        await desk.send("low", partition)
    assert await desk.lanes(1, free=5) == ["low"] * 4


# ---------------------------------------------------------------- an instance with one slot, and another that is idle


@pytest.mark.parametrize("count", [1, 4])
async def test_with_one_slot_it_holds_one_message_and_the_idle_instance_takes_the_next(count: int) -> None:
    running: dict[str, list[str]] = {"busy": [], "idle": []}
    go = asyncio.Event()

    def worker(instance: str) -> Agent:
        agent = Agent("one", concurrency=1)

        @agent.capability("work")
        async def work(ctx: Context) -> None:
            running[instance].append(ctx.msg_id)
            await go.wait()

        return agent

    busy, idle = worker("busy"), worker("idle")
    async with _bus_of(count, busy) as bus:
        for priority in (1, 5, 9, 5, 1, 9, 5, 9):
            await bus.send("work", priority=priority, timeout=60)
        await bus.advance(1)
        assert (len(running["busy"]), held(busy)) == (1, 1)
        await bus.start(idle)
        await bus.advance(1)
        assert (len(running["idle"]), held(idle), held(busy)) == (1, 1, 1)
        go.set()
        await bus.advance(2)
        assert len(set(running["busy"] + running["idle"])) == 8
        assert len(bus.receipts) == 8


def held(agent: Agent) -> int:
    """How much its one instance has in hand, running or not."""
    (run,) = agent.instances
    return sum(len(hands) for lanes in run.inbox.holds().values() for hands in lanes.values())


# ---------------------------------------------------------------- the choice alone


def test_nothing_is_chosen_without_room_or_without_work() -> None:
    order = LaneOrder()
    assert order.choose({"high": {1}}, free=0, turn=0) is None
    assert order.choose({"high": set(), "low": set()}, free=3, turn=0) is None


def test_no_more_is_taken_of_a_higher_lane_than_the_share_of_low_allows() -> None:
    order = LaneOrder()
    waiting = {"high": {0}, "normal": {0}, "low": {2}}
    assert order.choose(waiting, free=100, turn=0) == Next("high", 0, 7)
    assert order.choose(waiting, free=93, turn=7) == Next("low", 2, 1)
    assert order.choose(waiting, free=3, turn=8) == Next("high", 0, 3)
