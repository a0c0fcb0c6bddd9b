"""What routers count of what is asked, and what one of them makes of it for all."""

import json

import pytest

from reach.backend.memory_backend import MemoryBackend, Store
from reach.backend.steps import RouteResult, Send, WorkEntry
from reach.delivery.demand import PACE_MS, STALE_MS, DemandCounter, DemandService, demand_of
from reach.delivery.judge import Case
from reach.envelope.codec import decode
from reach.envelope.registration import Beat
from reach.registry.capacity import Capacity, read_capacity
from reach.registry.env_gauges import EnvGauges
from reach.routing.index import CapabilityIndex
from reach.routing.steps import Choice, Delay, Deliver, Step, Why
from reach.routing.wanted import RESULT
from reach.testing import ManualClock
from reach.tracing.hops import HopRecorder
from reach.tracing.readings import Readings
from reach.tracing.time_base import TimeBase
from tests.contract.drive import head_of, new_id
from tests.unit.routing.seen import NOW, add

DONE = RouteResult("done")


class Bench:
    """Two routers on one store and one clock."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.index = CapabilityIndex()
        self.backend = MemoryBackend(store=Store(self.clock))
        self.counters = [DemandCounter(self.index) for _ in range(2)]
        hops = HopRecorder(
            self.backend.record, TimeBase(fallback_us=lambda: 0), worker="w1", ask_ms=self.backend.now_ms
        )
        self.services = [
            DemandService(
                self.backend,
                counter,
                self.index,
                hops,
                f"w{number}",
                now_ms=self.clock.wall_ms,
                clock=self.clock,
            )
            for number, counter in enumerate(self.counters)
        ]

    async def round(self, *numbers: int) -> dict[str, Capacity]:
        self.clock.advance(PACE_MS)
        for number in numbers or (0, 1):
            await self.services[number].run_once()
        return {one.capability: one for one in (await read_capacity(self.backend))[0]}


@pytest.fixture
def bench() -> Bench:
    return Bench()


def case(pattern: str, *steps: Step, why: Why | None = None) -> Case:
    fields = {
        "msg_id": new_id(),
        "type": "request",
        "timestamp": 1,
        "source": {"agent_id": "s"},
        "target": {"pattern": pattern},
    }
    data = json.dumps(fields).encode()
    entry = WorkEntry("ingress", 0, "stream", "1-1", {b"e": data})
    made = Case(entry, data=data, envelope=decode(data), choice=Choice(steps, why or Why(counts={"fit": 1})))
    made.decision = Send(entry, str(fields["msg_id"]), head_of(str(fields["msg_id"])), (), data)
    return made


async def test_what_two_routers_have_seen_is_added_up(bench: Bench) -> None:
    for counter, count in zip(bench.counters, (10, 30), strict=True):
        for _ in range(count):
            counter.routed(case("capability:work", Deliver("a")), DONE)
    await bench.round(1, 0)  # w1 reckons, before w0 has told anything
    await bench.services[1].run_once()
    (work,), at_ms = await read_capacity(bench.backend)
    assert (work.arrivals_per_s, at_ms) == (8.0, bench.clock.wall_ms())


class Seeing:
    """What the watcher of a router knows."""

    loaded = True

    def __init__(self, bench: Bench) -> None:
        self.index, self.now_ms = bench.index, bench.clock.wall_ms


async def test_a_known_load_gives_the_known_metric(bench: Bench) -> None:
    """4 a second, 7 s each: 28 run at once, and slots that are busy for 0.7 of the time are 40; two in each instance."""
    add(
        bench.index,
        "work-1",
        "work",
        concurrency=2,
        beat=Beat(avg_response_ms=7_000.0),
        at_ms=bench.clock.wall_ms() + PACE_MS,
    )
    for _ in range(20):
        bench.counters[0].routed(case("capability:work", Deliver("work-1")), DONE)
    for _ in range(5):
        bench.counters[1].routed(case("capability:rare", Delay(1_000), why=Why(counts={"fit": 0})), DONE)
    await bench.round(1, 0)
    await bench.services[1].run_once()
    readings = Readings()
    gauges = EnvGauges(bench.backend, Seeing(bench), "w0", bench.clock)  # type: ignore[arg-type]
    readings.add(gauges)
    await gauges.run_once()
    found = {metric.name: values for metric, values in readings.numbers()}
    assert found["reach_capability_instances_wanted"] == {("work",): 20, ("rare",): 2}


async def test_only_what_is_new_counts_once_for_each_capability(bench: Bench) -> None:
    counter = bench.counters[0]
    for pattern in ("capability:a+b", "agent_id:x", "group:g", "capability:c.*"):
        counter.routed(case(pattern, Deliver("a")), DONE)
    counter.routed(case("capability:a", Deliver("a")), RouteResult("done", known="duplicate"))
    counter.routed(case("capability:d", Deliver("a"), Deliver("b")), DONE)  # a broadcast
    arrivals, _ = counter.taken()
    assert arrivals == {"a": 1, "b": 1, "d": 2}


async def test_what_waits_counts_for_as_long_as_it_waits(bench: Bench) -> None:
    for _ in range(5):
        bench.counters[0].routed(case("capability:rare", Delay(1_000), why=Why(counts={"fit": 0})), DONE)
    bench.counters[0].routed(case("capability:rare", Delay(60_000), why=Why()), DONE)  # it has a moment of its own
    assert (await bench.round(0))["rare"].waiting == 1.0


async def test_a_router_that_is_gone_counts_no_more_and_leaves_nothing(bench: Bench) -> None:
    bench.counters[1].routed(case("capability:work", Deliver("a")), DONE)
    await bench.round(0, 1)
    assert "work" in await bench.round(0)
    for _ in range(STALE_MS // PACE_MS):
        await bench.round(0)
    found = await bench.round(0)
    assert set(await bench.backend.read_demand()) == {"w0", ":wanted"}
    assert found["work"].arrivals_per_s == 0
    assert found["work"].wanted == 1  # for five minutes more


async def test_only_whose_turn_it_is_reckons(bench: Bench) -> None:
    await bench.round(0)
    before = (await bench.backend.read_demand())[":wanted"]
    bench.counters[1].routed(case("capability:work", Deliver("a")), DONE)
    await bench.services[1].run_once()
    told = await bench.backend.read_demand()
    assert (told[":wanted"], "w1" in told) == (before, True)


async def test_another_router_goes_on_where_the_first_has_died(bench: Bench) -> None:
    bench.counters[0].routed(case("capability:work", Deliver("a")), DONE)
    await bench.round(0, 1)
    for _ in range(3):
        bench.counters[1].routed(case("capability:other", Deliver("a")), DONE)
        await bench.round(1)
    found = await bench.round(1)
    assert found["work"].wanted == 1
    assert found["other"].wanted == 1


async def test_made_up_capabilities_do_not_fill_the_memory(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reach.delivery.demand.MAX_CAPABILITIES", 3)
    for number in range(9):
        for counter in bench.counters:
            counter.routed(case(f"capability:c{number}", Deliver("a")), DONE)
    assert set(bench.counters[1].taken()[0]) == {"c0", "c1", "c2"}
    assert set(await bench.round(0)) == {"c0", "c1", "c2"}


@pytest.mark.parametrize(
    "held", [{"instances": 3}, {"instances": 10**400}, {"instances": -1}], ids=["some", "huge", "less"]
)
async def test_what_a_stranger_has_told_holds_up_no_reckoning(bench: Bench, held: dict[str, int]) -> None:
    """Whoever may write there may write any name and number; what is wanted stands there until it is told anew."""
    line = {"capability": "No Token", "demand": {}, "wanted": held}
    await bench.backend.tell_demand(RESULT, json.dumps({"at_ms": 1, "lines": [line]}).encode())
    for number, count in enumerate((1, 10**400)):
        told = {"at_ms": bench.clock.wall_ms() + PACE_MS, "window_ms": 1, "arrivals": {"a:b": count, "work": count}}
        await bench.backend.tell_demand(f"stranger{number}", json.dumps(told | {"waits_ms": {"": 5}}).encode())
    bench.counters[0].routed(case("capability:work", Deliver("a")), DONE)
    assert set(await bench.round()) == {"work"}


def test_what_lies_with_an_agent_of_several_is_theirs_as_they_come() -> None:
    index = CapabilityIndex()
    add(index, "a", "x", "y", concurrency=4, beat=Beat(load=50.0, avg_response_ms=2_000.0))
    offering = [index.agents["a"]]
    x = demand_of("x", offering, {"a": 8}, {"x": 3.0, "y": 1.0}, 0.0, NOW)
    y = demand_of("y", offering, {"a": 8}, {"x": 3.0, "y": 1.0}, 0.0, NOW)
    assert (x.backlog, y.backlog, x.inflight, y.inflight) == (6, 2, 1.5, 0.5)
    assert (x.slots, x.instances, x.mean_s) == (4, 1, 2.0)
    assert demand_of("x", offering, {"a": 8}, {}, 0.0, NOW).backlog == 4
