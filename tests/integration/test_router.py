"""The router on every place: what becomes of a message, of a leg that comes back, and of work that another router left lying."""

import asyncio
import json
import uuid
from typing import Any

import pytest

from tests.contract.places import KEYS, Place
from tests.integration.spine import Spine, envelope, until
from tests.lag import in_time

SUCCESS = {"status": "success", "output": {"done": True}}
#: what there is of a run, whoever records it
RUN = ("agent.received", "agent.responding", "agent.completed")


async def notices(spine: Spine) -> list[dict[str, Any]]:
    entries = await spine.place.entries(KEYS.mail(0, "box.1"))
    found = [json.loads(fields[b"n"]) for _, fields in entries if b"n" in fields]
    return [notice for notice in found if notice["notice"] == "routed"]


async def test_a_message_goes_to_the_agent_and_its_receipt_comes_back(spine: Spine) -> None:
    await spine.register("refund-1", "refund")
    body = b'{ "a" : 1.0 , "big":9223372036854775808, "e":1e400, "s":"\\ud83c\\udf78" }'
    made = envelope(task_id="order 17", correlation_id="conv-1")
    data = json.dumps(made).encode().replace(b'{"amount": 1}', body)
    await spine.put({"e": data})
    hand, fields = await spine.work("refund-1")
    assert fields[b"e"] == data
    assert (fields[b"m"].decode(), fields[b"l"], fields[b"a"]) == (made["msg_id"], b"0", b"1")
    await spine.settle(made["msg_id"], hand, SUCCESS)
    receipt = await spine.receipt(made["msg_id"])
    assert receipt["task_id"] == "order 17"
    assert receipt["correlation_id"] == "conv-1"
    assert (receipt["status"], receipt["code"], receipt["output"]) == ("success", "ok", {"done": True})
    assert (receipt["target_agent"], receipt["attempts"], receipt["retry_count"]) == ("refund-1", 1, 0)
    assert not await notices(spine)
    await spine.quiet()


@pytest.mark.leaves_work(why="what the agent takes it does not answer")
async def test_the_points_of_a_router_are_recorded_in_order(spine: Spine) -> None:
    await spine.register("refund-1", "refund")
    traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    made = envelope(traces={"traceparent": traceparent}, payload={"schema": "refund.request.v1", "body": 1})
    await spine.send(made)
    await spine.work("refund-1")
    received, matched, sent = await spine.points(made["msg_id"], "message.received", "route.matched", "route.sent")
    assert {record["trace_id"] for record in (received, matched, sent)} == {"0af7651916cd43dd8448eb211c80319c"}
    assert received["parent_span_id"] == "b7ad6b7169203331"
    assert matched["chosen"] == "refund-1"
    assert matched["candidates"] == [{"agent": "refund-1"}]
    assert matched["counts"]["fit"] == 1
    assert (sent["agent"], sent["schema"], sent["worker"]) == ("refund-1", "refund.request.v1", "w1")


async def test_nobody_offers_it(spine: Spine) -> None:
    made = envelope(timeouts={"network_ms": 300})
    await spine.send(made)
    receipt = await spine.receipt(made["msg_id"])
    assert (receipt["status"], receipt["code"], receipt["target_agent"]) == ("failed", "route.not_found", None)
    points = ("message.received", "route.matched", "route.failed", "message.delivered")
    records = await spine.points(made["msg_id"], *points)
    assert [record["code"] for record in records[2:]] == ["route.not_found"] * 2
    await spine.quiet()


@pytest.mark.parametrize("network_ms", [800, 3_000])
async def test_where_network_and_total_run_out_together_it_is_total(spine: Spine, network_ms: int) -> None:
    made = envelope(timeouts={"total_ms": 800, "network_ms": network_ms})
    await spine.send(made)
    receipt = await spine.receipt(made["msg_id"], within_s=2)
    assert (receipt["status"], receipt["code"], receipt["details"]) == (
        "retryable",
        "timeout.total",
        {"state": "waiting"},
    )
    assert receipt["queue_ms"] >= 800


async def test_the_caller_hears_why_before_its_own_time_is_up(spine: Spine) -> None:
    """Somebody offers it and does not fit: the wait ends a tenth of total ahead of it, and nothing looks a second late."""
    await spine.register("refund-1", "refund", accepts=[{"type": "event"}])
    await until(lambda: seen(spine, 1), "the agent in the index")
    made = envelope(timeouts={"total_ms": 800})
    await spine.send(made)
    receipt = await spine.receipt(made["msg_id"], within_s=1.5)
    assert receipt["code"] == "route.no_candidate"


@pytest.mark.leaves_work(why="what the agent takes it does not answer")
async def test_an_agent_that_appears_while_the_message_waits_gets_it(spine: Spine) -> None:
    made = envelope()
    await spine.send(made)
    await spine.quiet()
    await spine.register("refund-1", "refund")
    _, fields = await spine.work("refund-1")
    assert fields[b"m"].decode() == made["msg_id"]


async def test_scope_all_has_a_leg_and_a_receipt_per_agent_and_a_routed_notice(spine: Spine) -> None:
    for name in ("news-1", "news-2", "news-3"):
        await spine.register(name, "news")
    made = envelope(target={"pattern": "capability:news", "scope": "all"})
    await until(lambda: known(spine, 3), "three agents in the index")
    await spine.send(made)
    for name in ("news-1", "news-2", "news-3"):
        hand, fields = await spine.work(name)
        await spine.settle(made["msg_id"], hand, {"status": "success", "output": name}, leg=int(fields[b"l"]))
    receipts = await until(lambda: three(spine, made["msg_id"]), "three receipts")
    assert sorted(receipt["output"] for receipt in receipts) == ["news-1", "news-2", "news-3"]
    assert sorted(receipt["leg"] for receipt in receipts) == [0, 1, 2]
    notice = (await notices(spine))[0]
    assert (notice["msg_id"], len(notice["legs"]), notice["scope"]) == (made["msg_id"], 3, "all")


async def known(spine: Spine, count: int) -> bool:
    return len((await spine.backend.snapshot()).agents) == count and await seen(spine, count)


async def seen(spine: Spine, count: int) -> bool:
    watcher = next(s for s in spine.services if s.name == "watcher")
    return len(watcher.index.agents) == count  # type: ignore[attr-defined]


async def three(spine: Spine, msg_id: str) -> list[dict[str, Any]]:
    found = await spine.mail(msg_id)
    return found if len(found) == 3 else []


@pytest.mark.leaves_work(why="what the agent takes it does not answer")
async def test_an_agents_own_limit_raises_the_timeouts_and_the_sender_is_told(spine: Spine) -> None:
    await spine.register("slow-1", "refund", max_process_ms=60_000)
    made = envelope()
    await until(lambda: seen(spine, 1), "the agent in the index")
    await spine.send(made)
    await spine.work("slow-1")
    record = await spine.backend.inspect(0, made["msg_id"])
    assert record is not None
    assert (record.head.processing_ms, record.head.total_ms) == (60_000, 75_000)
    assert (await notices(spine))[0]["total_ms"] == 75_000


@pytest.mark.leaves_work(why="what the agent takes it does not answer")
async def test_what_the_sender_set_is_not_raised(spine: Spine) -> None:
    await spine.register("slow-1", "refund", max_process_ms=60_000)
    await until(lambda: seen(spine, 1), "the agent in the index")
    made = envelope(timeouts={"processing_ms": 1_000, "total_ms": 5_000})
    await spine.send(made)
    await spine.work("slow-1")
    record = await spine.backend.inspect(0, made["msg_id"])
    assert record is not None
    assert (record.head.processing_ms, record.head.total_ms) == (1_000, 5_000)
    assert await notices(spine) == []


async def test_a_retryable_answer_goes_to_another_agent_after_a_pause(spine: Spine) -> None:
    for name in ("refund-1", "refund-2"):
        await spine.register(name, "refund")
    await until(lambda: seen(spine, 2), "both agents in the index")
    made = envelope()
    await spine.send(made)
    first, hand = await next_work(spine, "refund-1", "refund-2")
    await spine.settle(made["msg_id"], hand, {"status": "retryable", "error_message": "busy"})
    second, hand = await next_work(spine, "refund-1", "refund-2")
    assert {first, second} == {"refund-1", "refund-2"}
    await spine.settle(made["msg_id"], hand, SUCCESS)
    receipt = await spine.receipt(made["msg_id"])
    assert (receipt["attempts"], receipt["retry_count"], receipt["target_agent"]) == (2, 1, second)
    await spine.points(
        made["msg_id"],
        *("message.received", "route.matched", "route.sent", *RUN, "message.retried"),
        *("route.matched", "route.sent", *RUN, "message.delivered"),
    )
    await spine.quiet()


async def next_work(spine: Spine, *agents: str) -> tuple[str, str]:
    async def look() -> tuple[str, str] | None:
        for name in agents:
            found = await spine.place.read_plain(KEYS.inbox(0, name, "normal"), "agent", f"{name}.1")
            if found:
                return name, found[0]
        return None

    found = await until(look, "work for one of them")
    assert found is not None
    return found


async def test_a_wait_that_was_asked_for_burns_no_attempt(spine: Spine) -> None:
    await spine.register("refund-1", "refund")
    made = envelope()
    await spine.send(made)
    hand, _ = await spine.work("refund-1")
    asked = {"status": "retryable", "code": "handler.retry", "retry_after_ms": 50}
    await spine.settle(made["msg_id"], hand, asked)
    hand, fields = await spine.work("refund-1")
    assert fields[b"a"] == b"1"
    await spine.settle(made["msg_id"], hand, SUCCESS)
    assert (await spine.receipt(made["msg_id"]))["attempts"] == 1


async def test_a_code_that_is_not_retried_inside_ends_at_once(spine: Spine) -> None:
    await spine.register("refund-1", "refund")
    made = envelope()
    await spine.send(made)
    hand, _ = await spine.work("refund-1")
    await spine.settle(made["msg_id"], hand, {"status": "retryable", "code": "overloaded", "retry_after_ms": 5})
    receipt = await spine.receipt(made["msg_id"])
    assert (receipt["code"], receipt["retry_after_ms"], "dead_letter" in receipt["details"]) == ("overloaded", 5, False)


async def test_a_duplicate_runs_nothing_and_gets_the_stored_receipt(spine: Spine) -> None:
    await spine.register("refund-1", "refund")
    made = envelope()
    await spine.send(made)
    hand, _ = await spine.work("refund-1")
    await spine.settle(made["msg_id"], hand, SUCCESS)
    await spine.receipt(made["msg_id"])
    await spine.send(made)
    await spine.send(envelope(msg_id=made["msg_id"], payload={"body": "other"}))

    async def both() -> list[dict[str, Any]]:
        found = await spine.mail(made["msg_id"])
        return found if len(found) == 3 else []

    first, stored, conflict = await until(both, "three receipts")
    assert (first["stored"], stored["stored"], stored["output"]) == (False, True, first["output"])
    assert (conflict["code"], conflict["output"]) == ("envelope.id_conflict", None)
    assert not await spine.place.entries(KEYS.inbox(0, "refund-1", "normal"))

    async def rejected() -> list[str]:
        return [record["code"] for record in await spine.events() if record["point"] == "message.rejected"]

    assert await until(rejected, "the event") == ["envelope.id_conflict"]


async def test_a_cancel_that_came_first_ends_the_send(spine: Spine) -> None:
    await spine.register("refund-1", "refund")
    made = envelope()
    await spine.backend.cancel(0, made["msg_id"], "tester", 1, 60_000)
    await spine.send(made)
    assert (await spine.receipt(made["msg_id"]))["code"] == "cancelled"
    await spine.points(made["msg_id"], "message.received", "message.cancelled", "message.delivered")


@pytest.mark.parametrize("running", [False, True], ids=["queued", "running"])
async def test_a_cancel_by_control_entry_is_recorded(spine: Spine, running: bool) -> None:
    await spine.register("refund-1", "refund")
    await until(lambda: seen(spine, 1), "the agent in the index")
    made = envelope(correlation_id="conv-9")
    await spine.send(made)
    await until(lambda: spine.place.entries(KEYS.inbox(0, "refund-1", "normal")), "the message in the inbox")
    if running:
        assert (await spine.backend.take(0, "refund-1", "refund-1.1", 1)).taken
    sent_at_ms = await spine.backend.now_ms()

    async def has_passed() -> bool:
        return await spine.backend.now_ms() > sent_at_ms

    await until(has_passed, "the end of this millisecond: the memory knows no less")
    asked = {"op": "cancel", "msg_id": made["msg_id"], "source": made["source"]}
    for _ in range(2):  # the second one ends nothing any more
        await spine.backend.send_control(json.dumps(asked).encode())
    assert (await spine.receipt(made["msg_id"]))["code"] == "cancelled"
    points = ("message.received", "route.matched", "route.sent", "message.cancelled")
    record = (await spine.points(made["msg_id"], *points, "message.delivered"))[-2]
    assert (record["agent"], record["attempt"], record["correlation_id"]) == ("refund-1", 1, "conv-9")
    assert (record["code"], record.get("instance", "")) == ("cancelled", "refund-1.1" if running else "")


@pytest.mark.leaves_work(why="what the agent takes it does not answer")
async def test_a_full_inbox_makes_the_message_wait_or_go_elsewhere(spine: Spine) -> None:
    await spine.register("refund-1", "refund")
    await spine.backend.set_meta("routes", "capability:refund", b'{"max_inbox":1}')
    await until(lambda: seen(spine, 1), "the agent in the index")
    first, second = envelope(), envelope()
    await spine.send(first)
    hand, _ = await spine.work("refund-1")
    await spine.send(second)
    await spine.quiet()
    assert len(await spine.place.entries(KEYS.inbox(0, "refund-1", "normal"))) == 1
    await spine.settle(first["msg_id"], hand, SUCCESS)
    _, fields = await spine.work("refund-1")
    assert fields[b"m"].decode() == second["msg_id"]


@pytest.mark.leaves_work(why="what the agent takes it does not answer")
async def test_an_inbox_that_is_gone_does_not_swallow_the_message(spine: Spine) -> None:
    await spine.register("refund-1", "refund")
    await spine.register("refund-2", "refund")
    await until(lambda: seen(spine, 2), "both agents in the index")
    await spine.place.delete(KEYS.inbox(0, "refund-1", "normal"))
    made = [envelope() for _ in range(30)]  # two draws: one agent gets them all once in a billion times
    for one in made:
        await spine.send(one)
    await spine.quiet()
    got: dict[str, set[str]] = {"refund-1": set(), "refund-2": set()}
    for _ in made:
        name, hand = await next_work(spine, *got)
        entries = dict(await spine.place.entries(KEYS.inbox(0, name, "normal")))
        got[name].add(entries[hand][b"m"].decode())
    assert got["refund-1"] | got["refund-2"] == {one["msg_id"] for one in made}
    assert got["refund-1"], "its inbox was opened again, since it lives"


@pytest.mark.leaves_work(why="what the agent takes it does not answer")
async def test_a_message_that_starts_later_waits(spine: Spine) -> None:
    await spine.register("refund-1", "refund")
    await until(lambda: seen(spine, 1), "the agent in the index")
    now_ms = await spine.backend.now_ms()
    made = envelope(not_before=now_ms + 400)
    await spine.send(made)
    await spine.work("refund-1")
    assert await spine.backend.now_ms() >= now_ms + 400


async def test_an_envelope_in_the_wrong_partition_is_sent_back(place: Place) -> None:
    first = await place.connect()
    await first.set_meta("meta", "partitions", b"4")
    backend = await place.connect()
    assert backend.partitions == 4
    async with Spine(place, backend) as spine:
        made = envelope(msg_id="a3f2c1e4-9b8d-4f3a-8c2e-1a2b3c4d5e6f")
        for partition in range(4):
            await spine.send(made, partition=partition)

        async def told() -> list[dict[str, Any]]:
            found = [receipt for p in range(4) for receipt in await spine.mail(partition=p)]
            return found if len(found) >= 3 else []

        receipts = await until(told, "three refusals")
        assert {receipt["code"] for receipt in receipts} == {"envelope.wrong_partition"}
        assert len({receipt["details"]["partition"] for receipt in receipts}) == 1
        await spine.quiet()


async def test_an_idle_router_stops_at_once_and_leaves_nothing_pending(place: Place) -> None:
    backend = await place.connect()
    async with Spine(place, backend) as spine:
        await spine.quiet()
        sending = [asyncio.create_task(spine.send(envelope())) for _ in range(20)]
        async with in_time(0.3):
            assert await spine.supervisor.stop(5_000) is True
        await asyncio.gather(*sending)
    for key in KEYS.work(0):
        assert await place.pending(key, "routers") == []


@pytest.mark.leaves_work(why="the dead router is a consumer until it is swept, and the agent does not answer")
@pytest.mark.parametrize("door", ["ingress", "receipts", "again"])
async def test_what_a_router_has_read_and_left_is_served_by_the_next(place: Place, door: str) -> None:
    """A router that died after reading: its entries are pending to it; idle over 5 s they are anyone's."""
    backend = await place.connect()
    async with Spine(place, backend, "w1") as spine:
        await spine.register("refund-1", "refund")
        made, hand = envelope(), ""
        if door != "ingress":
            await spine.send(made)
            hand, _ = await spine.work("refund-1")
        await spine.quiet()
    if door == "ingress":
        await place.append(KEYS.ingress(0, "normal"), {"e": json.dumps(made).encode()})
    elif door == "receipts":
        fields = {"m": made["msg_id"].encode(), "l": b"0", "h": hand.encode(), "r": json.dumps(SUCCESS).encode()}
        await place.append(KEYS.receipts(0), fields)
    else:
        await place.append(KEYS.again(0), {"m": str(uuid.uuid4()).encode(), "l": b"0", "h": b"0"})
    assert await backend.read_work("dead-router", [0], 100, 0)
    await place.pass_time(6_000)
    async with Spine(place, await place.connect(), "w2") as spine:
        await spine.quiet()
        if door == "receipts":
            assert (await spine.receipt(made["msg_id"]))["status"] == "success"
        elif door == "ingress":
            _, fields_ = await spine.work("refund-1")
            assert fields_[b"m"].decode() == made["msg_id"]


async def test_a_router_reads_its_own_pending_entries_first(place: Place) -> None:
    """A reply that was swallowed on the way: the entries are this worker's own, and nobody else's for five seconds."""
    backend = await place.connect()
    await backend.keep_mailbox("box.1", [0])
    made = envelope(ttl_ms=0)
    await backend.read_work("w1", [0], 100, 0)
    await place.append(KEYS.ingress(0, "normal"), {"e": json.dumps(made).encode()})
    assert await backend.read_work("w1", [0], 100, 0)
    async with Spine(place, await place.connect(), "w1") as spine:
        assert (await spine.receipt(made["msg_id"], within_s=3))["code"] == "ttl.zero"
        await spine.quiet()
