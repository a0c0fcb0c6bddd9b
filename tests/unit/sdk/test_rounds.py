"""A key that is used again: the stored receipt where nothing more can be done, the next round where again can help."""

import asyncio
from typing import Any

from reach import Agent, Reject, Retry, Status
from reach.sdk.pending import next_round
from reach.testing import TestReach
from tests.unit.sdk.shops import client_of

PAY = "capability:pay"


def payer(runs: list[str], ends: list[BaseException | str]) -> Agent:
    """Ends its runs one after the other as `ends` says."""
    agent = Agent("payer")

    @agent.capability("pay")
    async def pay(body: Any) -> str:
        runs.append(str(body))
        end = ends.pop(0)
        if isinstance(end, BaseException):
            raise end
        return end

    return agent


async def test_what_ended_retryable_is_tried_anew_under_the_same_key() -> None:
    runs: list[str] = []
    async with TestReach(payer(runs, [ValueError("down"), "paid"])) as bus:
        first = await bus.request(PAY, 1, key="order-1", max_attempts=1)
        assert (first.status, first.code, first.round) == (Status.RETRYABLE, "handler.error", 1)
        second = await bus.request(PAY, 1, key="order-1", max_attempts=1)
        assert (second.status, second.output, second.round) == (Status.SUCCESS, "paid", 2)
        assert (second.msg_id, second.stored, second.attempts) == (first.msg_id, False, 1)
        third = await bus.request(PAY, 1, key="order-1")
        assert (third.output, third.round, third.stored) == ("paid", 2, True)
    assert len(runs) == 2


async def test_each_use_is_one_more_round() -> None:
    runs: list[str] = []
    async with TestReach(payer(runs, [ValueError("down")] * 3)) as bus:
        rounds = [(await bus.request(PAY, 1, key="order-1", max_attempts=1)).round for _ in range(3)]
    assert rounds == [1, 2, 3]
    assert len(runs) == 3


async def test_what_ended_for_good_is_not_tried_anew() -> None:
    runs: list[str] = []
    async with TestReach(payer(runs, [Reject("no", "no")])) as bus:
        first = await bus.request(PAY, 1, key="order-1")
        second = await bus.request(PAY, 1, key="order-1")
    assert (first.code, second.code, second.stored, second.round) == ("handler.rejected", "handler.rejected", True, 1)
    assert len(runs) == 1


async def test_what_was_cancelled_is_not_tried_anew() -> None:
    runs: list[str] = []
    async with TestReach(payer(runs, [Retry(after=5), "paid"])) as bus:
        handle = await bus.send(PAY, 1, key="order-1")
        await bus.advance(0.1)
        assert await handle.cancel()
        again = await bus.request(PAY, 1, key="order-1")
    assert again.code == "cancelled"
    assert len(runs) == 1


async def test_who_asks_while_it_goes_on_is_a_duplicate() -> None:
    runs: list[str] = []
    async with TestReach(payer(runs, [Retry(after=5), "paid"])) as bus:
        first = asyncio.create_task(bus.request(PAY, 1, key="order-1"))
        await bus.advance(0.1)
        second = asyncio.create_task(bus.request(PAY, 1, key="order-1"))
        await bus.advance(6)
        assert [(each.output, each.round) for each in (await first, await second)] == [("paid", 1)] * 2
    assert len(runs) == 2


async def test_two_who_ask_anew_at_once_make_one_round() -> None:
    runs: list[str] = []
    async with TestReach(payer(runs, [ValueError("down"), "paid"])) as bus:
        await bus.request(PAY, 1, key="order-1", max_attempts=1)
        both = await asyncio.gather(*(bus.request(PAY, 1, key="order-1", max_attempts=1) for _ in range(2)))
    assert [(each.output, each.round) for each in both] == [("paid", 2)] * 2
    assert len(runs) == 2


async def test_a_new_round_can_be_cancelled_through_its_handle() -> None:
    async with TestReach(payer([], [ValueError("down"), Retry(after=5), "paid"])) as bus:
        await bus.request(PAY, 1, key="order-1", max_attempts=1)
        handle = await bus.send(PAY, 1, key="order-1")
        await bus.advance(0.1)
        assert await handle.cancel()
        assert (await handle.receipt()).code == "cancelled"
        assert (await handle.receipt()).round == 2


async def test_the_round_is_asked_for_once_although_the_sending_is_repeated() -> None:
    runs: list[str] = []
    async with TestReach(payer(runs, [ValueError("down"), "paid"])) as bus:
        await bus.request(PAY, 1, key="order-1", max_attempts=1)
        backend = client_of(bus)
        backend.fail("inspect")
        backend.lose_reply("submit", times=2)
        task = asyncio.create_task(bus.request(PAY, 1, key="order-1", max_attempts=1))
        await bus.advance(5)
        assert ((await task).output, (await task).round) == ("paid", 2)
    assert len(runs) == 2


async def test_without_a_key_no_record_is_asked() -> None:
    async with TestReach(payer([], ["paid"])) as bus:
        client_of(bus).calls.clear()
        await bus.request(PAY, 1)
        assert "inspect" not in client_of(bus).calls


async def test_somebody_elses_record_says_nothing_about_the_round() -> None:
    async with TestReach(payer([], [ValueError("down")])) as bus:
        receipt = await bus.request(PAY, 1, key="order-1", max_attempts=1)
        record = await client_of(bus).backend.inspect(0, receipt.msg_id)
        assert record is not None
        assert next_round(record, record.head.sender) == 2
        assert next_round(record, "somebody") == 1
