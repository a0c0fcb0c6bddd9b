"""What a caller gets whose message asks something: the question, its own time, and ways to answer."""

import asyncio
from typing import Any

import pytest

from reach import AnswerRefused, Context, Progress
from reach.backend.keys import KeySpace
from reach.envelope.codec import encode
from reach.envelope.message import Envelope, Source, Target
from reach.envelope.rules import business_msg_id, partition_of, sender_of
from reach.errors import BackendUnavailable
from reach.sdk.client import Reach
from reach.testing import TestReach
from tests.unit.sdk.refunds import Approval, Desk, agent_with, hours_later, refunds

YES = Approval(True)


def approve(_: Any) -> Approval:
    return YES


async def asked(bus: TestReach, **options: Any) -> Any:
    """A message that asks."""
    handle = await bus.send("refund", 500, **options)
    await bus.settle()
    return handle


# ---------------------------------------------------------------- on_input


@pytest.mark.parametrize("kind", ["async", "plain"])
async def test_request_answers_by_itself(kind: str) -> None:
    prompts: list[Any] = []

    def plain(prompt: Any) -> Approval:
        prompts.append(prompt)
        return YES

    async def coroutine(prompt: Any) -> Approval:
        return plain(prompt)

    async with TestReach(refunds(Desk())) as bus:
        receipt = await bus.request("refund", 500, on_input=plain if kind == "plain" else coroutine, timeout=5)
        assert (receipt.output, prompts) == ("paid", [{"refund": 500}])
        assert await bus.ask("refund", 600, on_input=approve) == "paid"
        assert bus.reach.outstanding == 0


async def test_whoever_takes_hours_to_decide_has_them() -> None:
    decided = asyncio.Event()

    async def ponder(_: Any) -> Approval:
        await decided.wait()
        return YES

    async with TestReach(refunds(Desk())) as bus:
        task = asyncio.ensure_future(bus.request("refund", 500, on_input=ponder, timeout=5))
        await hours_later(bus)
        assert not task.done()
        decided.set()
        await bus.advance(2)
        assert (await task).output == "paid"


async def test_what_on_input_raises_comes_out_of_request_and_gives_the_message_up() -> None:
    async def refuse(_: Any) -> None:
        raise LookupError("nobody is there")

    async with TestReach(refunds(Desk())) as bus:
        with pytest.raises(LookupError, match="nobody is there"):
            await bus.request("refund", 500, on_input=refuse)
        await bus.settle()
        record = await bus.client_backend.backend.inspect(0, bus.sent[-1].msg_id)
        assert record is not None
        assert record.legs[0].state == "cancelled"
        with pytest.raises(LookupError):
            await bus.request("refund", 500, on_input=refuse, key="order-1")
        receipt = await bus.request("refund", 500, on_input=approve, key="order-1")  # it asks still
        assert receipt.output == "paid"


async def test_an_answer_that_cannot_be_written_comes_out_of_request() -> None:
    async with TestReach(refunds(Desk())) as bus:
        with pytest.raises(Exception, match="cannot be written as JSON"):
            await bus.request("refund", 500, on_input=lambda _: object())


async def test_a_send_may_answer_by_itself_and_logs_what_goes_wrong() -> None:
    async def refuse(_: Any) -> None:
        raise LookupError("nobody is there")

    async with TestReach(refunds(Desk())) as bus:
        handle = await asked(bus, on_input=approve)
        assert (await handle.receipt()).output == "paid"
        handle = await asked(bus, on_input=refuse)
        assert (await handle.status()).legs[0].state == "parked"
        await handle.answer(YES)
        await bus.settle()
        assert (await handle.receipt()).output == "paid"


async def test_everybody_of_a_gather_is_answered() -> None:
    async with TestReach(refunds(Desk())) as bus:
        receipts = await bus.gather(["refund", "capability:refund"], 500, on_input=approve)
        assert receipts.outputs == ["paid", "paid"]


async def test_on_input_must_be_a_function() -> None:
    async with TestReach(refunds(Desk())) as bus:
        wrong: Any = "yes"
        with pytest.raises(TypeError, match="on_input"):
            await bus.request("refund", 500, on_input=wrong)


# ---------------------------------------------------------------- a handle


async def test_progress_tells_what_is_asked_and_the_handle_answers() -> None:
    async with TestReach(refunds(Desk())) as bus:
        handle = await asked(bus)
        told: list[Progress] = []
        async for progress in handle.progress():
            told.append(progress)
            await handle.answer(YES)
            await bus.settle()
        assert told == [Progress("input_required", 0, {"refund": 500})]
        assert (await handle.receipt()).output == "paid"


async def test_it_is_answered_once() -> None:
    async with TestReach(refunds(Desk())) as bus:
        handle = await asked(bus)
        await handle.answer(YES)
        with pytest.raises(AnswerRefused) as refused:
            await handle.answer(YES)
        assert refused.value.code in {"answer.stale", "answer.not_asked"}
        await bus.settle()
        with pytest.raises(AnswerRefused) as refused:
            await handle.answer(YES)
        assert refused.value.code == "answer.not_asked"


async def test_what_asks_nothing_cannot_be_answered() -> None:
    async def waits(ctx: Context) -> None:
        await asyncio.Event().wait()

    async with TestReach(agent_with(waits)) as bus:
        handle = await bus.send("ask")
        await bus.settle()
        with pytest.raises(AnswerRefused) as refused:
            await handle.answer(1)
        assert (refused.value.code, refused.value.retryable) == ("answer.not_asked", False)


async def test_a_cancel_ends_it_and_its_question() -> None:
    async with TestReach(refunds(Desk())) as bus:
        handle = await asked(bus)
        assert await handle.cancel()
        await bus.settle()
        receipt = await handle.receipt()
        assert (receipt.code, receipt.details["state"]) == ("cancelled", "parked")
        with pytest.raises(AnswerRefused):
            await handle.answer(YES)


async def test_a_lost_reply_is_no_second_answer() -> None:
    async with TestReach(refunds(Desk())) as bus:
        handle = await asked(bus)
        bus.client_backend.lose_reply("answer")
        task = asyncio.ensure_future(handle.answer(YES))
        await bus.advance(2)
        assert task.exception() is None
        assert (await handle.receipt()).output == "paid"


async def test_without_redis_it_is_said() -> None:
    async with TestReach(refunds(Desk())) as bus:
        handle = await asked(bus)
        bus.client_backend.fail("answer", times=100)
        task = asyncio.ensure_future(handle.answer(YES))
        await bus.advance(60)
        with pytest.raises(BackendUnavailable):
            await task
        assert (await handle.status()).legs[0].state == "parked"


async def test_of_a_broadcast_each_leg_asks() -> None:
    async def asks(ctx: Context) -> Any:
        return await ctx.input_required("well?")

    one, two = agent_with(asks), agent_with(asks)
    async with TestReach(one, two) as bus:
        handle = await bus.send("ask", scope="all", timeout=30)
        await bus.settle()
        with pytest.raises(AnswerRefused) as refused:
            await handle.answer(1)
        assert (refused.value.code, refused.value.details["legs"]) == ("answer.which_leg", [0, 1])
        await bus.advance(100)
        await handle.answer("a", leg=0)
        await bus.settle()
        await bus.advance(100)
        await handle.answer("b")
        await bus.settle()
        receipts = await handle.receipts()
        assert receipts.outputs == ["a", "b"]


# ---------------------------------------------------------------- its own time


async def test_who_cannot_answer_and_has_a_timeout_hears_at_that() -> None:
    async with TestReach(refunds(Desk())) as bus:
        task = asyncio.ensure_future(bus.request("refund", 500, timeout=5))
        await bus.advance(5.3)
        receipt = await task
        assert (receipt.code, receipt.details["state"]) == ("timeout.total", "parked")
        assert receipt.details["local"]
        keyed = asyncio.ensure_future(bus.request("refund", 500, timeout=5, key="order-1"))
        await bus.advance(5.3)
        receipt = await keyed
        assert (receipt.details["state"], receipt.details["goes_on"]) == ("parked", True)
        assert (await bus.request("refund", 500, on_input=approve, key="order-1")).output == "paid"


async def test_who_has_no_timeout_waits_for_somebody_elses_answer() -> None:
    async with TestReach(refunds(Desk())) as bus:
        task = asyncio.ensure_future(bus.request("refund", 500))
        await bus.advance(100)
        assert not task.done()
        other = Reach(bus.place, agent_id="test")
        await other.start()
        await other.answer(bus.sent[-1].msg_id, YES)
        await bus.advance(1)
        assert (await task).output == "paid"
        await other.close()


async def test_after_the_answer_its_time_runs_again() -> None:
    """Also where nobody tells it how the message ended."""

    async def hangs(ctx: Context) -> None:
        await ctx.input_required("well?")
        await asyncio.Event().wait()

    agent = agent_with(hangs, max_process=100)
    async with TestReach(agent) as bus:
        task = asyncio.ensure_future(bus.request("ask", on_input=lambda _: 1, timeout=30))
        await bus.advance(20)
        assert not task.done()
        await bus.stop_router()
        bus.client_backend.fail("due", times=1_000)
        bus.client_backend.fail("inspect", times=1_000)
        bus.backend_of(agent).pause()
        await bus.advance(10.3)
        receipt = await task
    assert (receipt.code, receipt.details["local"]) == ("timeout.total", True)
    assert "state" not in receipt.details


async def test_a_lost_notice_is_found_in_the_record() -> None:
    async with TestReach(refunds(Desk())) as bus:
        mailbox = next(key for key in sorted(bus.store.keys()) if ":mail:test" in key)
        bus.client_backend.fail("read_mail", times=1)
        handle = await bus.send("refund", 500)
        bus.store.delete(mailbox)  # and with it the question
        await bus.advance(40)
        assert (await handle.status()).state == "open"
        await handle.answer(YES)
        await bus.settle()
        assert (await handle.receipt()).output == "paid"


async def test_nobody_waits_for_a_question_that_everything_has_forgotten() -> None:
    async with TestReach(refunds(Desk())) as bus:
        task = asyncio.ensure_future(bus.request("refund", 500))
        await bus.advance(10)
        for key in list(bus.store.keys()):
            bus.store.delete(key)
        await bus.advance(120)
        receipt = await task
    assert (receipt.code, receipt.details["local"]) == ("timeout.total", True)


async def test_somebody_who_comes_back_is_asked_again() -> None:
    async with TestReach(refunds(Desk())) as bus:
        first = Reach(bus.place, agent_id="shop")
        await first.start()
        await first.send("refund", 500, key="order-7")
        await bus.settle()
        await first.close()
        await bus.advance(100)
        second = Reach(bus.place, agent_id="shop")
        await second.start()
        receipt = await second.request("refund", 500, key="order-7", on_input=approve)
        assert (receipt.output, receipt.attempts) == ("paid", 1)
        await second.close()


async def test_two_callers_of_one_key_are_one_question() -> None:
    """The second one brings the notice once more into the mailbox that they share: each is asked once."""
    desk, prompts, decided = Desk(), [], asyncio.Event()

    async def ponder(prompt: Any) -> Approval:
        prompts.append(prompt)
        await decided.wait()
        return YES

    async with TestReach(refunds(desk)) as bus:
        tasks = []
        for _ in range(2):
            tasks.append(asyncio.ensure_future(bus.request("refund", 500, key="order-9", on_input=ponder)))
            await bus.settle()
        decided.set()
        await bus.settle()
        receipts = [await task for task in tasks]
    assert [receipt.output for receipt in receipts] == ["paid", "paid"]
    assert (len(prompts), desk.calls) == (2, [1, 1])


# ---------------------------------------------------------------- by its id


async def test_by_its_id() -> None:
    async with TestReach(refunds(Desk())) as bus:
        handle = await asked(bus)
        await bus.reach.answer(handle.msg_id, YES, leg=0)
        with pytest.raises(AnswerRefused) as refused:
            await bus.reach.answer(handle.msg_id, YES)
        assert refused.value.code == "answer.not_asked"
        with pytest.raises(AnswerRefused) as refused:
            await bus.reach.answer("0198a5c2-7f3e-7000-8000-000000000009", YES)
        assert refused.value.code == "answer.unknown"
        with pytest.raises(AnswerRefused) as refused:
            await bus.reach.answer(handle.msg_id, YES, leg=3)
        assert refused.value.code == "answer.not_asked"


async def test_a_stranger_who_has_the_same_id_in_another_partition_is_passed_by() -> None:
    bus = TestReach(refunds(Desk()))
    bus.store.make_hash(KeySpace("dev").meta())["partitions"] = b"2"
    async with bus:
        msg_id = business_msg_id("dev", sender_of(bus.reach.origin.source), "order-9")
        own = partition_of(msg_id, None, 2)
        elsewhere = next(f"k{n}" for n in range(20) if partition_of(msg_id, f"k{n}", 2) != own)
        handle = await asked(bus, key="order-9", order_key=elsewhere)
        assert handle.msg_id == msg_id
        strange = Envelope(
            msg_id=msg_id,
            type="event",
            timestamp=0,
            source=Source(agent_id="x"),
            target=Target(pattern="agent_id:none"),
        )
        await bus.reach.backend.submit(own, "normal", encode(strange))
        await bus.settle()
        await bus.reach.answer(msg_id, YES)
        assert (await handle.receipt()).output == "paid"
