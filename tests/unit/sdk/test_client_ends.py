"""Every way in which waiting must end, whatever Redis, routers and agents do."""

import asyncio
import random
from typing import Any

import msgspec
import pytest

from reach import (
    Agent,
    BackendUnavailable,
    Overloaded,
    Reach,
    Status,
)
from reach.backend.memory_backend import MemoryBackend, Store
from reach.backend.steps import MailEntry
from reach.clock import SystemClock
from reach.envelope.receipt import ReceiptRecord
from reach.envelope.records import encode_receipt
from reach.errors import BackendDenied, BackendFull
from reach.sdk.exchange import Exchange
from reach.testing import FaultyBackend, TestReach
from tests.unit.sdk.shops import Order, client_of, key_with, shop

# ---------------------------------------------------------------- every wait has an end


async def test_without_redis_a_caller_ends_by_its_own_clock() -> None:
    async with TestReach(shop()) as bus:
        backend = client_of(bus)
        for step in ("submit", "read_mail", "keep_mailbox", "due", "inspect"):
            backend.fail(step, times=10_000)
        task = asyncio.create_task(bus.request("capability:refund", Order("ORD-1"), timeout=2))
        await bus.advance(2.2)
        assert not task.done()
        await bus.advance(0.05)
        receipt = await task
        assert (receipt.status, receipt.code) == (Status.RETRYABLE, "timeout.total")
        assert receipt.details["local"] is True
        assert receipt.details["accepted"] is False
        assert bus.reach.outstanding == 0


async def test_send_without_redis_raises_at_its_deadline() -> None:
    async with TestReach(shop()) as bus:
        client_of(bus).fail("submit", times=10_000)
        task = asyncio.create_task(bus.send("capability:refund", Order("ORD-1"), timeout=2))
        await bus.advance(2.3)
        with pytest.raises(BackendUnavailable):
            await task
        assert bus.reach.outstanding == 0


async def test_an_unknown_outcome_is_sent_again_and_runs_once() -> None:
    runs: list[str] = []
    async with TestReach(shop(runs=runs)) as bus:
        client_of(bus).lose_reply("submit", times=2)
        task = asyncio.create_task(bus.request("refund", Order("slow"), timeout=3))
        await bus.advance(1)
        assert len(bus.sent) == 3
        assert len({envelope.msg_id for envelope in bus.sent}) == 1
        await bus.advance(3)
        assert (await task).code == "timeout.total"
        assert len(bus.receipts) == len(runs) == 1


async def test_a_receipt_that_comes_before_the_outcome_is_known_is_enough() -> None:
    async with TestReach(shop()) as bus:
        client_of(bus).lose_reply("submit")
        task = asyncio.create_task(bus.request("refund", Order("ORD-1")))
        await bus.advance(0.2)
        assert (await task).ok
        assert len(bus.sent) == 1


async def test_send_returns_once_a_receipt_shows_that_it_was_accepted() -> None:
    async with TestReach(shop()) as bus:
        client_of(bus).lose_reply("submit")
        task = asyncio.create_task(bus.send("refund", Order("ORD-1")))
        await bus.advance(0.2)
        assert (await (await task).receipt()).ok
        assert len(bus.sent) == 1


async def test_what_is_sent_again_does_not_outlive_a_timeout_that_was_given() -> None:
    async with TestReach(shop()) as bus:
        client_of(bus).fail("submit", times=3)
        task = asyncio.create_task(bus.request("refund", Order("ORD-1"), timeout=5))
        await bus.advance(3)
        assert (await task).ok
        total_ms = bus.sent[-1].timeouts.total_ms
        assert total_ms is not None
        assert total_ms < 5_000


async def test_a_full_redis_is_told_at_once() -> None:
    async with TestReach(shop()) as bus:
        client_of(bus).fail("submit", error=BackendFull("no memory"), times=2)
        receipt = await bus.request("refund", Order("ORD-1"))
        assert (receipt.status, receipt.code) == (Status.RETRYABLE, "overloaded")
        with pytest.raises(Overloaded):
            await bus.send("refund", Order("ORD-1"))
        assert bus.reach.outstanding == 0


async def test_a_redis_that_refuses_raises() -> None:
    async with TestReach(shop()) as bus:
        client_of(bus).fail("submit", error=BackendDenied("no"))
        with pytest.raises(BackendDenied):
            await bus.request("refund", Order("ORD-1"))
        assert bus.reach.outstanding == 0


async def test_a_receipt_that_was_lost_with_the_mailbox_is_read_from_the_ledger() -> None:
    async with TestReach(shop()) as bus:
        client_of(bus).pause()
        task = asyncio.create_task(bus.request("capability:refund", Order("ORD-1")))
        client_of(bus).resume()
        for _ in range(3):
            await asyncio.sleep(0)
        bus.store.delete(key_with(bus, ":mail:test"))
        client_of(bus).pause()
        await bus.settle()
        client_of(bus).resume()
        await bus.advance(2.1)
        assert (await task).ok


async def test_after_a_flush_every_caller_ends_by_its_deadline_and_the_next_one_is_served() -> None:
    agent = shop()
    async with TestReach(agent) as bus:
        tasks = [asyncio.create_task(bus.request("refund", Order("slow"), timeout=4)) for _ in range(5)]
        await bus.settle()
        bus.store.clear()
        await bus.advance(4.25)
        assert all(task.done() for task in tasks)
        assert {task.result().code for task in tasks} == {"timeout.total"}
        await bus.advance(6)
        assert (await bus.request("capability:refund", Order("ORD-1"))).ok


async def test_without_any_router_the_caller_ends_the_message_itself() -> None:
    agent = shop()
    async with TestReach(agent) as bus:
        handle = await bus.send("refund", Order("slow"), timeout=2)
        await bus.settle()
        await bus.stop_router()
        await bus.advance(2.15)
        receipt = await handle.receipt(0)
        assert receipt.code == "timeout.total"
        assert receipt.details["state"] == "running"  # the ledger says it, not the client alone


async def test_without_any_router_the_caller_ends_what_nobody_has() -> None:
    async with TestReach(shop()) as bus:
        handle = await bus.send("capability:nobody", timeout=2)
        await bus.settle()
        await bus.stop_router()
        await bus.advance(2.15)
        receipt = await handle.receipt(0)
        assert (receipt.code, receipt.details) == ("timeout.total", {"state": "waiting"})


async def test_a_message_that_no_router_ever_sees_ends_locally() -> None:
    async with TestReach(shop()) as bus:
        await bus.stop_router()
        task = asyncio.create_task(bus.request("capability:refund", Order("ORD-1"), timeout=2))
        await bus.advance(2.25)
        receipt = await task
        assert receipt.code == "timeout.total"
        assert receipt.details["local"] is True
        assert receipt.details["accepted"] is True


async def test_who_set_a_timeout_waits_no_longer_for_a_duplicate_of_somebody_elses() -> None:
    async with TestReach(shop()) as bus:
        first = asyncio.create_task(bus.request("refund", Order("slow"), key="k", timeout=60))
        await bus.settle()
        async with Reach(bus.place, agent_id="test") as other:
            await other.start()
            second = asyncio.create_task(other.request("refund", Order("slow"), key="k", timeout=1))
            third = asyncio.create_task(other.request("refund", Order("slow"), key="k"))
            await bus.advance(1.2)
            assert not second.done()
            await bus.advance(0.1)
            assert second.done()
            receipt = await second
            assert (receipt.status, receipt.code) == (Status.RETRYABLE, "timeout.total")
            assert receipt.details == {"waited_ms": 1250, "goes_on": True, "local": True, "accepted": True}
            assert "goes on" in (receipt.error_message or "")
            await bus.advance(45)
            assert not first.done()
            assert not third.done()  # it set none, and waits as long as the message lives
            await bus.advance(15)
            assert (await first).code == (await third).code == "timeout.total"
            assert "local" not in (await third).details


async def test_a_message_that_was_accepted_late_ends_by_the_ledger_where_that_is_in_time() -> None:
    async with TestReach(shop()) as bus:
        client_of(bus).pause()
        task = asyncio.create_task(bus.request("capability:refund", Order("slow"), timeout=2))
        await bus.advance(0.14)
        client_of(bus).resume()
        await bus.settle()
        await bus.stop_router()
        await bus.advance(2.2)
        receipt = await task
        assert receipt.code == "timeout.total"
        assert receipt.details == {"state": "running"}  # the ledger says it


async def test_many_receipts_before_the_notice_ask_the_ledger_once_at_a_time() -> None:
    async with TestReach() as bus:
        exchange = bus.reach.origin.exchange
        pending = exchange.open("m", sender="me", broadcast=True, total_ms=1_000)
        calls = client_of(bus).calls
        client_of(bus).pause()
        before = len(calls)
        for leg in range(50):
            data = encode_receipt(ReceiptRecord(msg_id="m", status=Status.SUCCESS, code="ok", leg=leg))
            exchange.mailbox.on_entry(MailEntry(0, f"{leg + 1}-1", "receipt", data))
        await bus.settle()
        client_of(bus).resume()
        await bus.settle()
        assert calls[before:].count("inspect") == 1
        assert (pending.unsure, pending.looks) == (True, 0)
        client_of(bus).fail("inspect")
        data = encode_receipt(ReceiptRecord(msg_id="m", status=Status.SUCCESS, code="ok", leg=50))
        for number in range(2):  # a look that failed leaves the way free for the next one
            exchange.mailbox.on_entry(MailEntry(0, f"60-{number}", "receipt", data))
            await bus.settle()
        assert calls[before:].count("inspect") == 3
        exchange.drop(pending)


async def test_an_agent_that_needs_longer_raises_the_callers_total() -> None:
    agent = Agent("slow", max_process=60)

    @agent.capability("think")
    async def think(body: Any) -> str:
        await asyncio.Event().wait()
        return ""

    async with TestReach(agent) as bus:
        task = asyncio.create_task(bus.request("think"))
        await bus.advance(40)
        assert not task.done()
        await bus.advance(40)
        assert (await task).code in ("timeout.total", "timeout.processing")


async def test_a_cancelled_caller_leaves_nothing_behind() -> None:
    async with TestReach(shop()) as bus:
        task = asyncio.create_task(bus.request("refund", Order("slow")))
        await bus.settle()
        assert bus.reach.outstanding == 1
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert bus.reach.outstanding == 0


async def test_closing_ends_what_is_waited_for() -> None:
    async with TestReach(shop()) as bus:
        client = Reach(bus.place, agent_id="other")
        await client.start()
        task = asyncio.create_task(client.request("refund", Order("slow")))
        await bus.settle()
        await client.close()
        receipt = await task
        assert (receipt.status, receipt.code) == (Status.RETRYABLE, "backend.unavailable")
        await client.close()
        assert not key_with(bus, ":mail:other")


@pytest.mark.parametrize("call", ["request", "ask", "send", "gather", "status", "cancel"])
async def test_a_closed_client_says_so_at_once(call: str) -> None:
    async with Reach.embedded(shop()) as reach:
        handle = await reach.send("refund", Order("ORD-1"))
    calls: dict[str, Any] = {"status": handle.status, "cancel": handle.cancel}
    with pytest.raises(BackendUnavailable, match="closed") as caught:
        async with asyncio.timeout(5):
            await (calls[call]() if call in calls else getattr(reach, call)("refund", Order("ORD-1")))
    assert (caught.value.code, caught.value.retryable) == ("backend.closed", False)
    assert reach.outstanding == 0


async def test_mail_that_cannot_be_read_does_not_stop_the_reader() -> None:
    async with TestReach(shop()) as bus:
        mailbox = bus.reach.mailbox_id
        raw = MemoryBackend(env="dev", store=bus.store)
        await raw.open()
        key = key_with(bus, mailbox)
        bus.store.append(key, {b"r": b"{junk"})
        bus.store.append(key, {b"n": b'{"notice":"unheard","msg_id":"x"}'})
        bus.store.append(key, {b"n": b"\xff"})
        await bus.settle()
        assert (await bus.request("refund", Order("ORD-1"))).ok
        await raw.close()


async def test_what_was_read_does_not_pile_up_in_the_mailbox() -> None:
    async with TestReach(shop()) as bus:
        for _ in range(50):
            assert (await bus.request("capability:refund", Order("ORD-1"))).ok
        await bus.advance(2.1)
        mailbox = bus.store.stream(key_with(bus, f"mail:{bus.reach.mailbox_id}"))
        assert mailbox is not None
        assert len(mailbox) == 1  # the one that was read last
        assert (await bus.request("capability:refund", Order("ORD-1"))).ok


async def test_a_client_that_ends_in_the_middle_of_writing_its_records_writes_them_once() -> None:
    memory, paused = MemoryBackend(env="dev", store=Store(SystemClock())), asyncio.Event()
    await memory.open()

    def watch(step: str, _arguments: tuple[Any, ...], _result: Any) -> None:
        if step == "record" and not paused.is_set():  # it lies there, and nobody has been told so yet
            faulty.pause()
            paused.set()

    faulty = FaultyBackend(memory, watch)
    exchange = Exchange(faulty.backend, "box", clock=SystemClock(), rng=random.Random(1))
    await exchange.start()
    exchange.recorder.add(0, "message.delivered", "m1")
    await paused.wait()
    exchange.recorder.add(0, "message.delivered", "m2")
    closing = asyncio.create_task(exchange.close())
    for _ in range(20):
        await asyncio.sleep(0)
    faulty.resume()
    await closing
    batches = [msgspec.json.decode(batch) for _, batch in await memory.read_events(0, "0", 1)]
    assert [record["msg_id"] for batch in batches for record in batch] == ["m1", "m2"]
    await memory.close()
