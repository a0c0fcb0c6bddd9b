"""What a router counts is what has happened, and what is told of the env is what lies there: on real servers, number by number."""

import json
from typing import Any

import pytest

from reach.clock import SystemClock
from reach.envelope.circuit import IN_A_ROW
from reach.envelope.registration import Why
from reach.registry.env_gauges import ARCHIVE_GROUP, EnvGauges, Names
from reach.registry.removing import remove_agent
from reach.registry.watcher import Watcher
from reach.tracing.metrics import OTHER
from reach.tracing.readings import Readings
from tests.contract.places import KEYS
from tests.integration.spine import BOX, Spine, envelope, until

Found = dict[str, dict[tuple[str, ...], float]]


def gauges_of(spine: Spine) -> EnvGauges:
    watcher = next(service for service in spine.services if isinstance(service, Watcher))
    return EnvGauges(spine.backend, watcher, spine.worker, SystemClock())


def counted(spine: Spine) -> Found:
    """What has been counted, without what is 0."""
    readings = Readings()
    readings.plays("router")
    readings.count(spine.hops.tally)
    found = {metric.name: {k: v for k, v in values.items() if v} for metric, values in readings.numbers()}
    return {name: values for name, values in found.items() if values}


def told(gauges: EnvGauges) -> Found:
    readings = Readings()
    readings.add(gauges)
    return {metric.name: dict(values) for metric, values in readings.numbers() if metric.who == "env"}


def answer(status: str = "success", code: str = "ok") -> dict[str, str]:
    return {"status": status, "code": code}


async def run(spine: Spine, said: dict[str, str], agent: str = "work-1") -> str:
    """Take the next message and answer it; its msg_id."""
    hand, fields = await spine.work(agent)
    msg_id = fields[b"m"].decode()
    await spine.settle(msg_id, hand, said)
    return msg_id


async def test_each_number_is_what_has_happened(spine: Spine) -> None:
    await spine.register("work-1", "refund")
    first = envelope()
    good = [first, *(envelope() for _ in range(4))]
    for made in good:
        await spine.send(made)
        await run(spine, answer())
        await spine.receipt(made["msg_id"])
    await spine.send(first)  # a duplicate: it comes in, and is handed to nobody
    await spine.put({"e": b"{"})
    lost = envelope(target={"pattern": "capability:nobody"}, timeouts={"network_ms": 50})
    assert (await spine.receipt(await spine.send(lost)))["code"] == "route.not_found"
    late = envelope(target={"pattern": "capability:nobody"}, timeouts={"network_ms": 60_000, "total_ms": 60})
    assert (await spine.receipt(await spine.send(late)))["code"] == "timeout.total"
    bad = envelope(max_attempts=1)
    await spine.send(bad)
    await run(spine, answer("retryable", "handler.error"))
    assert (await spine.receipt(bad["msg_id"]))["status"] == "retryable"
    back = envelope(max_attempts=2)
    await spine.send(back)
    await run(spine, answer("retryable", "probe.failed"))
    await run(spine, answer())
    assert (await spine.receipt(back["msg_id"]))["status"] == "success"
    sent = 5 + 1 + 1 + 1 + 1 + 1 + 1

    async def all_in() -> Found:
        found = counted(spine)
        return found if found.get("reach_messages_in_total") == {(): sent} else {}

    assert await until(all_in, "all that was sent is counted") == {
        "reach_messages_in_total": {(): sent},
        "reach_route_success_total": {(): 5 + 1 + 2},
        "reach_route_fail_total": {
            ("route.not_found",): 1,
            ("timeout.total",): 1,
            ("envelope.malformed",): 1,
        },
        "reach_expired_total": {("timeout.total",): 1},
        "reach_retries_total": {("probe.failed",): 1},
        "reach_dead_letters_total": {("handler.error",): 1},
    }
    delivery = spine.hops.tally.delivery
    assert delivery.count == 5 + 1 + 1, "each message's first hand-over"
    traces = {example.trace_id for example in delivery.examples if example is not None}
    assert traces
    assert traces <= {str(made["msg_id"]).replace("-", "") for made in (*good, bad, back)}


async def test_the_wait_for_somebody_is_a_part_of_the_delivery(spine: Spine) -> None:
    made = envelope(target={"pattern": "capability:later"}, timeouts={"network_ms": 20_000})
    await spine.send(made)

    async def waits() -> bool:
        record = await spine.backend.inspect(0, str(made["msg_id"]))
        return record is not None and record.legs[0].state == "waiting"

    await until(waits, "that it waits")
    await spine.register("late-1", "later")
    await run(spine, answer(), "late-1")
    await spine.receipt(made["msg_id"])
    record = await spine.backend.inspect(0, str(made["msg_id"]))
    assert record is not None
    assert spine.hops.tally.delivery.count == 1
    handed_s = spine.hops.tally.delivery.sum
    assert 0 < handed_s <= (record.now_ms - record.head.accepted_at_ms) / 1000


async def test_what_is_told_of_the_env_is_what_lies_there(spine: Spine) -> None:
    await spine.register("work-1", "refund")
    await spine.register("gone-1", "other")
    gauges = gauges_of(spine)
    for _ in range(3):
        await spine.send(envelope())

    async def lies() -> bool:
        return len(await spine.place.entries(KEYS.inbox(0, "work-1", "normal"))) == 3

    await until(lies, "the messages in the inbox")
    hand, fields = await spine.work("work-1")
    leaving = {"op": "leave", "reply_to": BOX, "agent_id": "gone-1", "instance_id": "gone-1.1"}
    await spine.backend.send_control(json.dumps(leaving).encode())

    async def looked() -> Found:
        await spine.backend.beat("work-1", "work-1.1", b'{"state":"ready"}')
        await gauges.run_once()
        found = told(gauges)
        return found if found.get("reach_agents_offline", {}).get(("left",)) else {}

    found = await until(looked, "that it is gone", 15.0)
    assert found["reach_agents_offline"] == {("left",): 1, ("silent",): 0, ("removed",): 0}
    assert found["reach_agents"] == {(): 1}, "the other one is gone"
    assert found["reach_workers"] == {("router",): 1, ("archiver",): 0}
    assert found["reach_stream_lag"]["inbox", "work-1"] == 2
    assert found["reach_stream_pending"]["inbox", "work-1"] == found["reach_inflight"]["work-1",] == 1
    assert {found["reach_stream_lag"][stream, ""] for stream in ("ingress", "again", "receipts")} == {0}
    assert found["reach_oldest_pending_seconds"]["inbox",] > 0
    assert found["reach_oldest_pending_seconds"]["ingress",] == 0
    assert found["reach_dead_letters_kept"] == found["reach_circuits_open"] == {(): 0}
    await spine.settle(fields[b"m"].decode(), hand, answer())
    for _ in range(2):
        await run(spine, answer())

    async def empty() -> bool:
        await gauges.run_once()
        now = told(gauges)
        return now["reach_stream_lag"]["inbox", "work-1"] == now["reach_inflight"]["work-1",] == 0

    await until(empty, "that nothing lies there", 15.0)
    assert told(gauges)["reach_oldest_pending_seconds"]["inbox",] == 0


async def test_an_open_circuit_and_what_no_archiver_has_kept_yet_are_counted(spine: Spine) -> None:
    await spine.register("work-1", "refund")
    gauges = gauges_of(spine)
    assert (await spine.backend.follow_events(0, ARCHIVE_GROUP, "a1")).batches == ()
    for _ in range(IN_A_ROW):
        await spine.send(envelope(max_attempts=1))
        await run(spine, answer("retryable", "handler.error"))

    async def opened() -> Found:
        await gauges.run_once()
        found = told(gauges)
        return found if found.get("reach_circuits_open") == {(): 1} else {}

    found = await until(opened, "the circuit of the one who always fails", 15.0)
    assert found["reach_workers"]["archiver",] == 1
    await spine.quiet()
    await spine.hops.flush()
    followed = await spine.backend.follow_events(0, ARCHIVE_GROUP, "a1")
    assert followed.batches

    async def looked() -> Found:
        await gauges.run_once()
        return told(gauges)

    found = await looked()
    assert found["reach_archiver_lag"] == {(): len(followed.batches)}, "it has them in hand, and has not kept them"
    assert found["reach_archiver_lag_seconds"][()] > 0
    await spine.backend.finish_events(0, ARCHIVE_GROUP, [entry_id for entry_id, _ in followed.batches])
    found = await looked()
    assert found["reach_archiver_lag"] == found["reach_archiver_lag_seconds"] == {(): 0}
    await spine.backend.unfollow_events(0, ARCHIVE_GROUP, "a1")


async def test_who_is_gone_is_counted_by_why_until_it_is_back(spine: Spine) -> None:
    gauges = gauges_of(spine)
    gone: tuple[tuple[str, Why], ...] = (("quiet-1", "silent"), ("thrown-1", "removed"))
    for name, why in gone:
        await spine.register(name, "other")
        stored = (await spine.backend.snapshot()).agents[name]
        later_ms = await spine.backend.now_ms() + 1_000
        assert await remove_agent(spine.backend, name, stored, before_ms=later_ms, why=why)

    async def offline() -> dict[tuple[str, ...], float]:
        await gauges.run_once()
        return told(gauges).get("reach_agents_offline", {})

    async def both() -> bool:
        return await offline() == {("left",): 0, ("silent",): 1, ("removed",): 1}

    await until(both, "that both are gone", 15.0)
    await spine.register("quiet-1", "other")

    async def one() -> bool:
        return await offline() == {("left",): 0, ("silent",): 0, ("removed",): 1}

    await until(one, "that one is back", 15.0)


async def test_one_router_tells_it_at_a_time(spine: Spine) -> None:
    async with Spine(spine.place, await spine.place.connect(), "w2") as other:
        both = [gauges_of(spine), gauges_of(other)]

        async def one_tells() -> bool:
            for gauges in both:
                await gauges.run_once()
            return any(told(gauges) for gauges in both)

        await until(one_tells, "that somebody tells it")
        assert [bool(told(gauges)) for gauges in both] == [True, False]

        async def two() -> bool:
            await both[0].run_once()
            return told(both[0])["reach_workers"]["router",] == 2

        await until(two, "that both are seen")


async def test_what_is_old_is_told_no_more(spine: Spine, monkeypatch: pytest.MonkeyPatch) -> None:
    gauges = gauges_of(spine)

    async def tells() -> bool:
        await gauges.run_once()
        return bool(told(gauges))

    await until(tells, "that it is told")
    clock: Any = gauges._clock
    late_ms = clock.monotonic_ms() + 15_001
    monkeypatch.setattr(gauges, "_clock", type("Late", (), {"monotonic_ms": lambda _: late_ms})())
    assert told(gauges) == {}


def test_names_are_bounded_and_come_free() -> None:
    names = Names(2)
    assert [names.label(name) for name in ("a", "b", "c", "a")] == ["a", "b", OTHER, "a"]
    names.keep(["b", "c"])
    assert [names.label(name) for name in ("c", "d", "b")] == ["c", OTHER, "b"]
