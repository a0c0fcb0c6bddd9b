"""The router under faults: poison, lost replies, a crash of its own. Run by hand on the memory backend, one run at a time."""

import contextlib
import json
import random
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from reach.backend.keys import KeySpace
from reach.backend.memory_backend import MemoryBackend, Store
from reach.backend.steps import Decision, Refuse, RouteResult, Send, WorkEntry
from reach.delivery.judge import Case, Judge
from reach.delivery.rates import Rates
from reach.delivery.router import Router
from reach.delivery.soonest import soonest_ms
from reach.delivery.trail import Trail
from reach.errors import BackendUnavailable, ScriptFailed
from reach.registry.watcher import Watcher
from reach.routing.decide import Chooser
from reach.routing.index import CapabilityIndex
from reach.routing.strategies import Memory
from reach.tracing.hops import HopRecorder
from reach.tracing.time_base import TimeBase
from tests.manual_clock import ManualClock

KEYS = KeySpace("dev")
INBOX = KEYS.inbox(0, "refund-1", "normal")
REGISTRATION = {"agent_id": "refund-1", "instance_id": "i", "capabilities": [{"name": "refund"}]}

Fault = Callable[[Sequence[Decision]], list[RouteResult] | None]


class Spiteful(MemoryBackend):
    """Raises in `route`, or answers by itself, when `fault` says so."""

    fault: Fault = staticmethod(lambda _: None)
    finished: int = 0

    async def route(self, partition: int, decisions: Sequence[Decision]) -> list[RouteResult]:
        answered = self.fault(decisions)
        return answered if answered is not None else await super().route(partition, decisions)


class Clumsy(Judge):
    """Has a bug that one message brings out."""

    bad = ""

    def open_send(self, entry: WorkEntry, now_ms: int) -> Case:
        if self.bad.encode() in entry.fields[b"e"]:
            raise RecursionError("a bug")
        return super().open_send(entry, now_ms)


class Bench:
    """A router that is run by hand, on a machine whose clock is an hour ahead of the store's."""

    def __init__(self) -> None:
        self.server_clock = ManualClock()
        self.clock = ManualClock(self.server_clock.wall_ms() + 3_600_000)
        self.store = Store(self.server_clock)
        self.backend = Spiteful(store=self.store)
        self.index = CapabilityIndex()
        self.hops = HopRecorder(self.backend.record, TimeBase(fallback_us=lambda: self.clock.wall_ms() * 1000))
        rng = random.Random(5)
        self.judge = Clumsy(
            Chooser(index=self.index, rng=rng, memory=Memory()), env="dev", partitions=1, durability="memory", rng=rng
        )
        self.judge.bad = "no such text"
        self.waits: list[int] = []
        self.watcher = Watcher(self.backend, self.index, clock=self.clock)
        self.router = Router(
            self.backend,
            self.judge,
            Trail(self.hops),
            worker="w1",
            partitions=[0],
            rates=Rates(self.backend, self.index, self.clock),
            now_ms=self.watcher.now_ms,
            on_wait=self.waits.append,
            catch_up=self.watcher.catch_up,
            block_ms=0,
            clock=self.clock,
        )

    async def open(self) -> None:
        await self.backend.open()
        await self.backend.keep_mailbox("box", [0])
        await self.backend.open_inbox(0, "refund-1")
        await self.backend.register("refund-1", json.dumps(REGISTRATION).encode(), "i", b'{"state":"ready"}', None)
        await self.watcher.run_once()
        await self.router.run_once()

    def advance(self, ms: int) -> None:
        """Let so much time pass, for both."""
        self.server_clock.advance(ms)
        self.clock.advance(ms)

    async def send(self, **fields: Any) -> str:
        made = {
            "msg_id": str(uuid.uuid4()),
            "type": "request",
            "timestamp": 1,
            "source": {"agent_id": "tester"},
            "target": {"pattern": "capability:refund"},
            "reply_to": "box",
        } | fields
        await self.backend.submit(0, "normal", json.dumps(made).encode())
        return str(made["msg_id"])

    def delivered(self) -> list[str]:
        stream = self.store.stream(INBOX)
        assert stream is not None
        return [fields[b"m"].decode() for _, fields in stream.all()]

    def waiting_entries(self) -> int:
        return sum(len(list(stream.all())) for key in KEYS.work(0) if (stream := self.store.stream(key)) is not None)

    async def receipts(self) -> list[dict[str, Any]]:
        mail = await self.backend.read_mail("box", {0: "0"}, 0)
        return [json.loads(entry.data) for entry in mail if entry.kind == "receipt"]

    async def dead(self) -> list[str]:
        return [fields[b"m"].decode() for _, fields in await self.backend.dead_letters(0)]


@pytest.fixture
async def bench() -> Bench:
    made = Bench()
    await made.open()
    return made


def names(decision: Decision, msg_id: str) -> bool:
    return not isinstance(decision, Refuse) and decision.msg_id == msg_id


async def test_the_one_that_fails_alone_goes_to_the_dead_letters_and_the_others_go_on(bench: Bench) -> None:
    good, poison, last = [await bench.send() for _ in range(3)]

    def fault(decisions: Sequence[Decision]) -> list[RouteResult] | None:
        if any(names(decision, poison) for decision in decisions):
            raise ScriptFailed("the script broke")
        return None

    bench.backend.fault = fault
    await bench.router.run_once()
    assert bench.delivered() == [good, last]
    assert await bench.dead() == [poison]
    (receipt,) = await bench.receipts()
    assert (receipt["msg_id"], receipt["code"], receipt["status"]) == (poison, "backend.unavailable", "retryable")
    assert "the script broke" in receipt["details"]["reason"]
    assert bench.waiting_entries() == 0


async def test_an_error_in_one_decision_buries_that_one_only(bench: Bench) -> None:
    good, poison = await bench.send(), await bench.send()

    def fault(decisions: Sequence[Decision]) -> list[RouteResult] | None:
        if len(decisions) == 2:
            bench.backend.fault = lambda _: None
            return [RouteResult("done"), RouteResult("error", error="WRONGTYPE somewhere")]
        return None

    bench.backend.fault = fault
    await bench.router.run_once()
    assert await bench.dead() == [poison]
    assert good not in await bench.dead()


async def test_what_cannot_even_be_buried_is_acknowledged_and_each_is_told(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        await bench.send()

    def fault(_: Sequence[Decision]) -> list[RouteResult] | None:
        raise ScriptFailed("broken for good")

    bench.backend.fault = fault
    await bench.router.run_once()
    assert bench.waiting_entries() == 0
    assert len({record.__dict__["entry"] for record in caplog.records if "not even buried" in record.message}) == 3


async def test_redis_away_leaves_all_pending_and_the_next_run_serves_it(bench: Bench) -> None:
    sent = [await bench.send() for _ in range(3)]

    def fault(_: Sequence[Decision]) -> list[RouteResult] | None:
        raise BackendUnavailable("away")

    bench.backend.fault = fault
    with pytest.raises(BackendUnavailable):
        await bench.router.run_once()
    assert (bench.delivered(), await bench.dead()) == ([], [])
    bench.backend.fault = lambda _: None
    await bench.router.run_once()
    assert bench.delivered() == sent
    assert bench.waiting_entries() == 0


async def test_a_type_that_this_router_has_not_heard_of_yet_is_looked_up(bench: Bench) -> None:
    await bench.backend.set_meta("types", "own.news", b"1")
    known, unknown = await bench.send(type="own.news"), await bench.send(type="of.nobody")
    await bench.router.run_once()
    (receipt,) = await bench.receipts()
    assert (receipt["msg_id"], receipt["code"]) == (unknown, "type.unregistered")
    assert (await bench.backend.inspect(0, known)) is not None


async def test_after_a_loss_of_the_registry_an_unknown_type_waits_for_who_may_be_coming_back(bench: Bench) -> None:
    bench.index.settling_until_ms = bench.server_clock.wall_ms() + 6_000
    late, nobodys = await bench.send(type="own.news"), await bench.send(type="of.nobody")
    await bench.router.run_once()
    assert await bench.receipts() == []
    bench.advance(1_000)
    accepting = {**REGISTRATION, "accepts": [{"type": "own.news"}]}
    stored = await bench.backend.registered("refund-1")
    await bench.backend.register("refund-1", json.dumps(accepting).encode(), "i", b"{}", stored, ["own.news"])
    await bench.watcher.catch_up()
    for _ in range(12):
        bench.advance(500)
        await bench.backend.beat("refund-1", "i", b"{}")
        await bench.watcher.catch_up()
        await bench.backend.due(0)
        await bench.router.run_once()
    assert bench.delivered() == [late]
    (receipt,) = await bench.receipts()
    assert (receipt["msg_id"], receipt["code"], receipt["status"]) == (nobodys, "type.unregistered", "failed")


async def test_a_reply_that_is_lost_after_the_step_runs_nothing_twice() -> None:
    bench = Bench()
    lost = True

    def after(step: str) -> None:
        nonlocal lost
        if step == "route" and lost:
            lost = False
            raise BackendUnavailable("the reply was lost")

    bench.backend = Spiteful(store=bench.store, after_step=after)
    bench.router._backend = bench.backend
    await bench.open()
    msg_id = await bench.send()
    with pytest.raises(BackendUnavailable):
        await bench.router.run_once()
    await bench.router.run_once()
    assert bench.delivered() == [msg_id]
    assert bench.waiting_entries() == 0


async def test_what_another_router_is_at_work_on_is_left_to_it_for_five_seconds(bench: Bench) -> None:
    msg_id = await bench.send()
    assert len(await bench.backend.read_work("w2", [0], 10, 0)) == 1
    for _ in range(2):
        bench.advance(2_499)
        await bench.router.run_once()
        assert bench.delivered() == []
    bench.advance(2_500)
    await bench.router.run_once()
    assert bench.delivered() == [msg_id]


@pytest.mark.parametrize("why", ["it runs", "an older hand", "it waits"])
async def test_a_reference_that_asks_for_nothing_brings_no_decision(bench: Bench, why: str) -> None:
    msg_id = await bench.send(target={"pattern": "capability:nobody" if why == "it waits" else "capability:refund"})
    await bench.router.run_once()
    record = await bench.backend.inspect(0, msg_id)
    assert record is not None
    hand = record.legs[0].hand
    if why == "it runs":
        assert len((await bench.backend.take(0, "refund-1", "i", 1)).taken) == 1
    decided: list[Decision] = []
    bench.backend.fault = decided.extend
    forged = {"m": msg_id, "l": "0", "h": "1-1" if why == "an older hand" else hand}
    bench.store.append(KEYS.again(0), {name.encode(): value.encode() for name, value in forged.items()})
    await bench.router.run_once()
    assert decided == []
    assert bench.waiting_entries() == 0


async def test_an_entry_that_brings_the_router_down_is_found_and_buried(bench: Bench) -> None:
    good, poison, last = [await bench.send() for _ in range(3)]
    bench.judge.bad = poison
    for _ in range(2):
        with pytest.raises(RecursionError):
            await bench.router.run_once()
    await bench.router.run_once()
    assert sorted(bench.delivered()) == sorted([good, last])
    (letter,) = await bench.backend.dead_letters(0)
    assert poison.encode() in letter[1][b"e"]
    assert letter[1][b"m"] == poison.encode()
    assert bench.waiting_entries() == 0
    (receipt,) = await bench.receipts()
    assert (receipt["msg_id"], receipt["code"], receipt["status"]) == (poison, "backend.unavailable", "retryable")
    assert receipt["details"]["reason"] == "it brought a router down"


async def test_a_leg_that_changes_every_time_is_let_lie_and_stops_nothing(bench: Bench) -> None:
    stubborn = await bench.send()
    calls = 0

    def fault(decisions: Sequence[Decision]) -> list[RouteResult] | None:
        nonlocal calls
        if names(decisions[0], stubborn):
            calls += 1
            return [RouteResult("gone") for _ in decisions]
        return None

    bench.backend.fault = fault
    await bench.router.run_once()
    assert calls == 6
    assert bench.waiting_entries() == 1
    bench.backend.fault = lambda _: None
    other = await bench.send()
    await bench.router.run_once()
    assert bench.delivered() == [other]
    bench.advance(6_000)
    await bench.router.run_once()
    assert bench.delivered() == [other, stubborn]


async def test_after_three_choices_that_could_not_be_carried_out_it_waits(bench: Bench) -> None:
    await bench.send()
    decided: list[Decision] = []

    def fault(decisions: Sequence[Decision]) -> list[RouteResult] | None:
        decided.extend(decisions)
        return [RouteResult("changed")] if len(decided) <= 3 else None

    bench.backend.fault = fault
    await bench.router.run_once()
    acts = [decision.plans[0].act for decision in decided if isinstance(decision, Send)]
    assert acts == ["deliver", "deliver", "deliver", "delay"]
    assert bench.waits == []  # a second is soon enough for whoever looks once a second
    assert bench.waiting_entries() == 0


async def test_whoever_looks_for_what_is_due_is_told_of_a_short_wait(bench: Bench) -> None:
    await bench.send(target={"pattern": "capability:nobody"})
    await bench.send(timeouts={"total_ms": 300})
    await bench.send()
    await bench.router.run_once()
    assert bench.waits == [200, 300]


@pytest.mark.parametrize("verdict", ["lost", "skipped"])
async def test_the_arrival_of_what_was_applied_is_recorded_though_nobody_says_so(bench: Bench, verdict: str) -> None:
    async def lossy(partition: int, decisions: Sequence[Decision]) -> list[RouteResult]:
        await MemoryBackend.route(bench.backend, partition, decisions)
        if verdict == "lost":
            raise BackendUnavailable("the reply was lost")
        return [RouteResult("skipped") for _ in decisions]

    bench.backend.route = lossy  # type: ignore[method-assign]
    msg_id = await bench.send()
    with contextlib.suppress(BackendUnavailable):
        await bench.router.run_once()
    assert bench.delivered() == [msg_id]
    await bench.hops.flush()
    stream = bench.store.stream(KEYS.events(0))
    told = [one for _, fields in stream.all() for one in json.loads(fields[b"b"])] if stream is not None else []
    arrivals = [one for one in told if one["point"] == "message.received"]
    assert [(one["msg_id"], one["source"]) for one in arrivals] == [(msg_id, "tester")]


def test_decisions_without_a_moment_ask_nobody() -> None:
    entry = WorkEntry("again", 0, KEYS.again(0), "1-1", {})
    assert soonest_ms(None) >= 1000
    assert soonest_ms(Refuse(entry)) >= 1000
