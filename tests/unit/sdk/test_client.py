"""The client against a real router on memory: good paths, refusals, handles, broadcasts, keys, opening."""

import asyncio
import uuid
from typing import Any

import msgspec
import pytest

from reach import (
    Agent,
    ConfigError,
    EnvelopeError,
    NoRoute,
    Reach,
    Receipts,
    Rejected,
    Status,
    Timeout,
)
from reach.envelope.codec import encode
from reach.sdk.pending import Progress
from reach.testing import TestReach, wait_until
from tests.unit.sdk.shops import Order, Refund, shop


async def test_a_request_brings_a_typed_receipt() -> None:
    async with TestReach(shop()) as bus:
        receipt = await bus.request("capability:refund", Order("ORD-1"), returns=Refund, correlation_id="conv")
        assert receipt.ok
        assert receipt.output == Refund("ORD-1")
        assert (receipt.code, receipt.attempts, receipt.correlation_id, receipt.stored) == ("ok", 1, "conv", False)
        assert receipt.target_agent is not None
        assert receipt.target_agent.startswith("shop-")
        assert bus.reach.outstanding == 0


async def test_ask_gives_the_value_or_raises() -> None:
    async with TestReach(shop()) as bus:
        assert await bus.ask("refund", Order("ORD-1"), returns=Refund) == Refund("ORD-1")
        with pytest.raises(Rejected) as caught:
            await bus.ask("refund", Order("none"))
        assert caught.value.code == "handler.rejected"
        assert caught.value.details["reject"] == "no_such_order"


@pytest.mark.parametrize("target", ["refund", "capability:refund", "shop", "agent_id:shop", "group:shops"])
async def test_a_bare_name_is_an_agent_first_and_then_a_capability(target: str) -> None:
    agent = Agent("shop", groups=("shops",))

    @agent.capability("refund")
    async def refund(order: Order) -> str:
        return "x"

    async with TestReach(agent) as bus:
        assert await bus.ask(target, Order("ORD-1")) == "x"
        wanted = {"refund": "capability:refund", "shop": "agent_id:shop"}.get(target, target)
        assert bus.sent[-1].target.pattern == wanted


async def test_a_body_that_does_not_fit_the_handler_is_the_senders_fault() -> None:
    async with TestReach(shop()) as bus:
        receipt = await bus.request("refund", {"order": 1})
        assert (receipt.status, receipt.code, receipt.attempts) == (Status.FAILED, "payload.invalid", 1)
        assert receipt.details["expected"] == "Order"


async def test_nobody_offers_it() -> None:
    async with TestReach(shop()) as bus:
        task = asyncio.create_task(bus.ask("capability:nothing"))
        await bus.advance(3.5)
        with pytest.raises(NoRoute):
            await task


@pytest.mark.parametrize(
    ("target", "body", "options", "code"),
    [
        ("intent:", None, {}, "target.bad_pattern"),
        ("a b", None, {}, "target.bad_pattern"),
        ("capability:Refund", None, {}, "target.bad_pattern"),
        ("refund", object(), {}, "payload.invalid"),
        ("refund", "x" * (1 << 20), {}, "envelope.too_large"),
        ("refund", None, {"type": "No Type"}, "envelope.bad_field"),
        ("refund", None, {"headers": {"x": "y" * 5000}}, "envelope.bad_field"),
        ("refund", None, {"max_attempts": 11}, "envelope.bad_field"),
        ("refund", None, {"correlation_id": "a\nb"}, "envelope.bad_field"),
        ("refund", None, {"type": "unknown.type"}, "type.unregistered"),
        ("refund", None, {"ttl": 0}, "ttl.zero"),
    ],
)
async def test_what_breaks_a_rule_is_a_failed_receipt(
    target: str, body: object, options: dict[str, Any], code: str
) -> None:
    async with TestReach(shop()) as bus:
        receipt = await bus.request(target, body, **options)
        assert (receipt.status, receipt.code) == (Status.FAILED, code)
        assert bus.reach.outstanding == 0


async def test_send_raises_what_breaks_a_rule() -> None:
    async with TestReach(shop()) as bus:
        with pytest.raises(EnvelopeError):
            await bus.send("a b")
        assert bus.sent == []
        assert bus.reach.outstanding == 0


@pytest.mark.parametrize("wrong", [{"timeout": -1}, {"timeout": 0}, {"ttl": -1}, {"timeout": float("nan")}])
async def test_a_duration_that_is_none_is_told_at_once(wrong: dict[str, Any]) -> None:
    async with TestReach(shop()) as bus:
        with pytest.raises(ValueError, match=next(iter(wrong))):
            await bus.request("refund", **wrong)
        assert bus.reach.outstanding == 0


async def test_an_option_that_there_is_not_is_told_at_once() -> None:
    async with TestReach(shop()) as bus:
        with pytest.raises(TypeError, match="unknown option delya"):
            await bus.send("refund", None, delya=3)  # type: ignore[call-arg]


# ---------------------------------------------------------------- handles


async def test_a_handle_tells_what_becomes_of_its_message() -> None:
    async with TestReach(shop()) as bus:
        handle = await bus.send("refund", Order("slow"), timeout=10)
        assert (await handle.status()).state == "accepted"
        await bus.settle()
        status = await handle.status()
        assert (status.state, [leg.state for leg in status.legs]) == ("open", ["running"])
        task = asyncio.create_task(handle.receipt(1))
        await bus.advance(1)
        with pytest.raises(Timeout) as caught:
            await task
        assert caught.value.details["msg_id"] == handle.msg_id
        await bus.advance(10)
        receipt = await handle.receipt()
        assert receipt.code == "timeout.total"
        assert (await handle.status()).state == "ended"
        assert bus.reach.outstanding == 0
        done = await bus.send("refund", Order("ORD-1"))
        receipt = await done.receipt()
        status = await done.status()
        assert [(leg.state, leg.attempts) for leg in status.legs] == [("done", receipt.attempts)] == [("done", 1)]


async def test_cancel_ends_a_running_message_with_a_receipt() -> None:
    async with TestReach(shop()) as bus:
        handle = await bus.send("refund", Order("slow"))
        await bus.settle()
        assert await handle.cancel() is True
        await bus.settle()
        receipt = await handle.receipt(0)
        assert (receipt.status, receipt.code) == (Status.FAILED, "cancelled")
        assert await handle.cancel() is False
        await bus.advance(6)  # the holder sees it at its next renewal
        assert (await bus.ask("refund", Order("ORD-1")))["refunded"] == "ORD-1"


async def cancels(bus: TestReach, msg_id: str) -> list[tuple[int, str]]:
    """The records of a message's cancel: (leg, agent)."""
    await bus.reach.recorder.flush()
    stream = bus.store.stream("reach:{dev.0}:events")
    batches = [fields[b"b"] for _, fields in stream.all()] if stream is not None else []
    found = [record for batch in batches for record in msgspec.json.decode(batch)]
    return [
        (record["leg"], record.get("agent", ""))
        for record in found
        if (record["point"], record["msg_id"]) == ("message.cancelled", msg_id)
    ]


async def until_cancelled(bus: TestReach, msg_id: str, count: int) -> None:
    """A router has recorded it of so many legs."""

    async def there() -> bool:
        await bus.settle()
        return len(await cancels(bus, msg_id)) == count

    await wait_until(there, what="the records of a cancel")


async def test_a_cancel_leaves_a_record_of_each_leg_whoever_had_it() -> None:
    agents = [shop("shop-1"), shop("shop-2")]
    async with TestReach(*agents) as bus:
        running = await bus.send("capability:refund", Order("slow"))
        waiting = await bus.send("capability:nobody", Order("slow"))
        wide = await bus.send("capability:refund", Order("slow"), scope="all")
        await bus.settle()
        for handle in (running, waiting, wide):
            assert await handle.cancel()
            assert not await handle.cancel()
        for handle, count in ((running, 1), (waiting, 1), (wide, 2)):
            await until_cancelled(bus, handle.msg_id, count)
        assert [leg for leg, _ in await cancels(bus, running.msg_id)] == [0]
        assert [leg for leg, _ in await cancels(bus, waiting.msg_id)] == [0]
        assert sorted(await cancels(bus, wide.msg_id)) == [(0, "shop-1"), (1, "shop-2")]


async def test_a_cancel_that_overtakes_its_message_is_kept() -> None:
    async with TestReach(shop()) as bus:
        handle = await bus.send("refund", Order("ORD-1"))
        assert await handle.cancel() is True
        await bus.settle()
        assert (await handle.receipt(0)).code == "cancelled"
        await wait_until(lambda: cancels(bus, handle.msg_id), what="the record of the router that met it")
        assert len(await cancels(bus, handle.msg_id)) == 1


async def test_progress_is_told_until_the_end() -> None:
    async with TestReach(shop()) as bus:
        handle = await bus.send("tell")
        steps = [step async for step in handle.progress()]
        assert steps == [Progress("progress", 0, {"step": n}) for n in range(3)]
        assert (await handle.receipt(0, returns=str)).output == "told"


# ---------------------------------------------------------------- everybody


async def test_scope_all_has_a_receipt_per_leg() -> None:
    async with TestReach(shop(), shop(), shop()) as bus:
        receipts = await bus.request("refund", Order("ORD-1"), scope="all", returns=Refund)
        assert isinstance(receipts, Receipts)
        assert len(receipts) == 3
        assert receipts.ok
        assert [receipt.leg for receipt in receipts] == [0, 1, 2]
        assert len({receipt.target_agent for receipt in receipts}) == 3
        assert receipts.outputs == [Refund("ORD-1")] * 3
        handle = await bus.send("market.news", {"x": 1}, type="market.news", scope="all", timeout=2)
        await bus.advance(4)
        assert len(await handle.receipts(0)) == 1


async def test_scope_all_ends_by_its_total_with_the_legs_that_are_open() -> None:
    one, two = shop(), shop()
    async with TestReach(one, two) as bus:
        await bus.pause(two)
        task = asyncio.create_task(bus.request("refund", Order("ORD-1"), scope="all", timeout=5))
        await bus.advance(5.5)
        receipts = await task
        assert sorted(receipt.code for receipt in receipts) == ["ok", "timeout.total"]
        await bus.resume(two)


async def test_scope_all_that_nobody_hears() -> None:
    async with TestReach() as bus:
        task = asyncio.create_task(bus.request("refund", scope="all"))
        await bus.advance(3.5)
        assert [receipt.code for receipt in await task] == ["route.not_found"]


# ---------------------------------------------------------------- keys


async def test_the_same_key_is_the_same_message() -> None:
    async with TestReach(shop()) as bus:
        first = await bus.request("refund", Order("ORD-1"), key="order 1")
        second = await bus.request("refund", Order("ORD-1"), key="order 1")
        assert (first.stored, second.stored) == (False, True)
        assert first.msg_id == second.msg_id == str(uuid.uuid5(uuid.NAMESPACE_URL, "reach:dev/test/order 1"))
        assert second.task_id == "order 1"
        other = await bus.request("refund", Order("ORD-2"), key="order 1")
        assert (other.status, other.code, other.output) == (Status.FAILED, "envelope.id_conflict", None)


async def test_a_late_receipt_of_the_same_key_is_no_answer_to_another_content() -> None:
    """What was sent again, and answered with what is stored, may arrive when the key is used for something else."""
    async with TestReach(shop()) as bus:
        body = {"order_id": "ORD-1"}
        first = await bus.request("refund", body, key="k")
        sent = next(envelope for envelope in bus.sent if envelope.msg_id == first.msg_id)
        await bus.client_backend.backend.submit(0, "normal", encode(sent))  # its reply was lost: once more
        asking = asyncio.ensure_future(bus.request("refund", {"order_id": "ORD-2"}, key="k"))
        await bus.advance(1)
        assert (await asking).code == "envelope.id_conflict"


async def test_the_same_key_twice_at_once_runs_once() -> None:
    async with TestReach(shop()) as bus:
        same = await asyncio.gather(*(bus.request("refund", Order("ORD-1"), key="k") for _ in range(5)))
        assert {receipt.code for receipt in same} == {"ok"}
        assert len({receipt.msg_id for receipt in same}) == 1
        slow = await bus.send("refund", Order("slow"), key="s")
        conflict = await bus.request("refund", Order("ORD-1"), key="s")
        assert conflict.code == "envelope.id_conflict"
        assert await slow.cancel()
        assert (await slow.receipt()).code == "cancelled"  # and not what the other one heard


async def test_a_key_needs_a_sender_with_a_name() -> None:
    async with Reach.embedded() as reach:
        with pytest.raises(ConfigError, match="agent_id"):
            await reach.request("refund", key="k")


async def test_replicas_make_the_same_id_from_a_key() -> None:
    async with TestReach(shop(), agent_id="me-{instance}") as bus:
        receipt = await bus.request("refund", Order("ORD-1"), key="k")
        assert receipt.msg_id == str(uuid.uuid5(uuid.NAMESPACE_URL, "reach:dev/me/k"))
        assert bus.sent[-1].source.name == "me"
        assert bus.sent[-1].source.agent_id != "me"


# ---------------------------------------------------------------- opening


async def test_embedded_is_a_context_manager_and_awaitable(caplog: pytest.LogCaptureFixture) -> None:
    async with Reach.embedded(shop()) as reach:
        assert (await reach.request("refund", Order("ORD-1"))).ok
    assert "in this process alone" in caplog.text
    reach = await Reach.embedded(shop(), agent_id="me")
    assert reach.agent_id == "me"
    assert (await reach.request("refund", Order("ORD-1"), key="k")).ok
    await reach.close()


async def test_memory_urls_share_what_they_hold() -> None:
    agent = shop()
    async with agent.running("memory://one"), Reach.connect("memory://one") as reach:
        assert (await reach.request("refund", Order("ORD-1"))).ok
    async with Reach.connect("memory://two") as reach:
        assert (await reach.request("refund", Order("ORD-1"), timeout=0.2)).code in ("timeout.total", "route.not_found")


@pytest.mark.parametrize("wrong", [{"url": "http://x"}, {"env": "Prod"}, {"url": "memory://x", "env": "a.b"}])
async def test_what_cannot_be_connected_to_is_told(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        await Reach.connect(**wrong)
    with pytest.raises(ConfigError):
        await Reach.connect("memory://x", agent_id="a b")
