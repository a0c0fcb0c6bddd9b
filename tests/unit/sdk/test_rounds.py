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


async def test_what_ended_by_its_time_is_tried_anew() -> None:
    """Nobody had it: its ttl or its total was over; then somebody comes."""
    runs: list[str] = []
    async with TestReach() as bus:
        times: dict[str, dict[str, Any]] = {"a": {"ttl": 1, "timeout": 9}, "b": {"timeout": 1}}
        for key, options in times.items():
            handle = await bus.send("agent_id:payer", 1, key=key, **options)
            await bus.advance(2)
            assert (await handle.receipt(0)).status is Status.RETRYABLE
        await bus.start(payer(runs, ["paid", "paid"]))
        for key in ("a", "b"):
            receipt = await bus.request("agent_id:payer", 1, key=key)
            assert (receipt.output, receipt.round, receipt.stored) == ("paid", 2, False)
    assert len(runs) == 2


async def test_of_a_broadcast_that_is_asked_again_only_what_ended_retryable_runs_again() -> None:
    ran: list[str] = []

    def worker(name: str, ends: list[BaseException | str]) -> Agent:
        agent = Agent(name)

        @agent.capability("count")
        async def count() -> str:
            ran.append(name)
            end = ends.pop(0)
            if isinstance(end, BaseException):
                raise end
            return end

        return agent

    fine, down, never = worker("fine", ["1"]), worker("down", [ValueError("x"), "2"]), worker("never", [Reject("no")])
    async with TestReach(fine, down, never) as bus:
        options: dict[str, Any] = {"scope": "all", "key": "sum", "max_attempts": 1}
        first = await (await bus.send("count", **options)).receipts()
        assert sorted(one.code for one in first) == ["handler.error", "handler.rejected", "ok"]
        second = await (await bus.send("count", **options)).receipts()
        told = {one.target_agent: (one.code, one.round, one.stored) for one in second}
        assert told == {"fine": ("ok", 2, True), "down": ("ok", 2, False), "never": ("handler.rejected", 2, True)}
        third = await (await bus.send("count", **options)).receipts()
        assert {(one.round, one.stored) for one in third} == {(2, True)}
    assert sorted(ran) == ["down", "down", "fine", "never"]


async def test_who_asks_again_and_is_refused_hears_it_at_once() -> None:
    runs: list[str] = []
    async with TestReach(payer(runs, [ValueError("down"), Retry(after=5), "other", "paid"])) as bus:
        await bus.request(PAY, 1, key="order-1", max_attempts=1)
        await client_of(bus).backend.set_meta("meta", "max_inflight", b"1")
        await bus.advance(1)
        other = await bus.send(PAY, 2, key="order-2")
        await bus.advance(0.1)
        refused = await bus.request(PAY, 1, key="order-1", max_attempts=1)
        assert (refused.code, refused.round, refused.retry_after_ms) == ("overloaded", 2, 1_000)
        await bus.advance(6)
        assert (await other.receipt()).output == "other"
        third = await bus.request(PAY, 1, key="order-1")
        assert (third.output, third.round) == ("paid", 3)
    assert len(runs) == 4
