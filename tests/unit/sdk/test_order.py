"""order_key: messages of one key and target are handled one at a time, in the order in which they were sent; others beside them."""

import asyncio
from typing import Any

import pytest

from reach import Agent, Context, Reject, Retry
from reach.backend.keys import KeySpace
from reach.envelope.rules import partition_of
from reach.errors import EnvelopeError
from reach.testing import TestReach
from tests.unit.sdk.shops import key_with

SPACE = KeySpace("dev")


class Workshop:
    """Agents that say what they begin and end, and take 10 ms of the bus's clock for each."""

    def __init__(self, count: int = 1) -> None:
        self.log: list[tuple[str, str, int]] = []
        self.failing: dict[int, Exception] = {}
        self.bus: TestReach | None = None
        self.agents = [self._agent(f"worker-{n}") for n in range(count)]

    def _agent(self, name: str) -> Agent:
        agent = Agent(name)

        @agent.capability("work")
        async def work(body: dict[str, Any], ctx: Context) -> str:
            assert self.bus is not None
            self.log.append(("begins", body["of"], body["n"]))
            await self.bus.clock.sleep(10)
            if error := self.failing.pop(body["n"], None):
                raise error
            self.log.append(("ends", body["of"], body["n"]))
            return name

        return agent

    def open(self) -> TestReach:
        self.bus = TestReach(*self.agents)
        return self.bus

    def ended(self, of: str) -> list[int]:
        return [n for what, whose, n in self.log if what == "ends" and whose == of]

    def most_at_once(self, of: str = "") -> int:
        running = most = 0
        for what, whose, _ in self.log:
            if of in {"", whose}:
                running += 1 if what == "begins" else -1
                most = max(most, running)
        return most


def message(n: int, of: str = "a") -> dict[str, Any]:
    return {"of": of, "n": n}


async def test_a_hundred_of_one_key_over_three_agents_are_handled_in_order_and_another_keys_beside_them() -> None:
    shop = Workshop(3)
    async with shop.open() as bus:
        for n in range(100):
            for key in ("a", "b"):
                await bus.send("work", message(n, key), order_key=key)
        await bus.advance(20)
        assert shop.ended("a") == shop.ended("b") == list(range(100))
        assert (shop.most_at_once("a"), shop.most_at_once("b"), shop.most_at_once()) == (1, 1, 2)
        assert len({receipt.target_agent for receipt in bus.receipts}) == 3
        assert all(receipt.ok for receipt in bus.receipts)


async def test_without_a_key_they_run_side_by_side() -> None:
    shop = Workshop(1)
    async with shop.open() as bus:
        for n in range(5):
            await bus.send("work", message(n))
        await bus.advance(1)
        assert shop.most_at_once() == 5


async def test_other_targets_of_the_same_key_run_side_by_side() -> None:
    shop = Workshop(1)
    async with shop.open() as bus:
        await bus.send("work", message(1), order_key="k")
        await bus.send("agent_id:worker-0", message(2), order_key="k")
        await bus.advance(1)
        assert shop.most_at_once() == 2


async def test_a_retry_keeps_its_place() -> None:
    shop = Workshop(2)
    shop.failing = {0: RuntimeError("once"), 1: Retry(after=3)}
    async with shop.open() as bus:
        for n in range(4):
            await bus.send("work", message(n), order_key="k")
        await bus.advance(10)
        assert shop.ended("a") == [0, 1, 2, 3]
        begun = [n for what, _, n in shop.log if what == "begins"]
        assert begun == [0, 0, 1, 1, 2, 3]


async def test_what_ends_without_success_lets_the_next_go() -> None:
    shop = Workshop(1)
    shop.failing = {0: Reject("no", "never")}
    async with shop.open() as bus:
        for n in range(2):
            await bus.send("work", message(n), order_key="k")
        await bus.advance(1)
        assert shop.ended("a") == [1]


async def test_the_work_of_a_killed_agent_comes_first() -> None:
    shop = Workshop(2)
    async with shop.open() as bus:
        stuck = Agent("stuck")

        @stuck.capability("work")
        async def work(body: dict[str, Any]) -> None:
            shop.log.append(("stuck", body["of"], body["n"]))
            await asyncio.Event().wait()

        for agent in shop.agents:
            await bus.pause(agent)
        await bus.start(stuck)
        await bus.advance(20)  # the others are suspect: it is chosen
        for n in range(3):
            await bus.send("work", message(n), order_key="k", timeout=60)
        await bus.settle()
        assert shop.log == [("stuck", "a", 0)]
        await bus.kill(stuck)
        for agent in shop.agents:
            await bus.resume(agent)
        await bus.advance(25)
        assert shop.ended("a") == [0, 1, 2]
        assert shop.most_at_once() <= 2


async def test_send_returns_when_it_has_its_place() -> None:
    shop = Workshop(1)
    async with shop.open() as bus:
        first = await bus.send("work", message(0), order_key="k")
        second = await bus.send("work", message(1), order_key="k")
        status = await second.status()
        assert [(leg.state, leg.agent) for leg in status.legs] == [("held", None)]
        assert (await first.status()).legs[0].state in {"queued", "running"}
        assert await second.cancel() is True
        await bus.advance(1)
        assert (await second.receipt(0)).code == "cancelled"
        assert shop.ended("a") == [0]


async def test_without_a_router_send_returns_when_it_has_ended() -> None:
    shop = Workshop(1)
    async with shop.open() as bus:
        await bus.stop_router()
        sending = asyncio.ensure_future(bus.send("work", message(0), order_key="k", timeout=5))
        await bus.advance(5)
        assert not sending.done()
        await bus.advance(0.3)
        handle = await sending
        assert (await handle.receipt(0)).code == "timeout.total"
        assert bus.reach.outstanding == 0


async def test_a_send_that_is_given_up_while_it_waits_goes_on() -> None:
    shop = Workshop(1)
    async with shop.open() as bus:
        await bus.stop_router()
        sending = asyncio.ensure_future(bus.send("work", message(0), order_key="k", timeout=5))
        await bus.settle()
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        assert len(bus.sent) == 1
        await bus.advance(6)
        assert bus.reach.outstanding == 0


async def test_the_notice_that_was_lost_is_in_the_record() -> None:
    """The mailbox is lost with what came for it: when it is made anew the record is read, as for every outstanding message."""
    shop = Workshop(1)
    async with shop.open() as bus:
        bus.store.delete(key_with(bus, f":mail:{bus.reach.mailbox_id}"))
        sending = asyncio.ensure_future(bus.send("work", message(0), order_key="k"))
        await bus.settle()
        assert not sending.done()
        await bus.advance(3)
        assert (await (await sending).receipt(0)).ok


async def test_key_and_order_key_go_together() -> None:
    shop = Workshop(1)
    async with shop.open() as bus:
        await bus.send("work", message(0), order_key="k")
        one = await bus.send("work", message(1), order_key="k", key="piece")
        two = await bus.send("work", message(1), order_key="k", key="piece")
        assert one.msg_id == two.msg_id
        await bus.send("work", message(2), order_key="k")
        await bus.advance(1)
        assert shop.ended("a") == [0, 1, 2]
        assert (await one.receipt(0)).ok
        assert (await two.receipt(0)).ok


async def test_a_key_that_ended_retryable_goes_to_the_end_of_the_line() -> None:
    shop = Workshop(1)
    shop.failing = {1: RuntimeError("once")}
    async with shop.open() as bus:
        first = await bus.send("work", message(1), order_key="k", key="piece", max_attempts=1)
        await bus.advance(1)
        assert (await first.receipt(0)).code == "handler.error"
        await bus.send("work", message(2), order_key="k")
        await bus.send("work", message(1), order_key="k", key="piece", max_attempts=1)
        await bus.advance(1)
        assert shop.ended("a") == [2, 1]


async def test_requests_and_gathered_ones_are_ordered_too() -> None:
    shop = Workshop(2)
    async with shop.open() as bus:
        asked = [asyncio.ensure_future(bus.request("work", message(n), order_key="k")) for n in range(3)]
        group = bus.gather(["work", "capability:work"], message(3), order_key="k")
        await bus.advance(2)
        assert all(receipt.ok for receipt in await asyncio.gather(*asked))
        assert all(receipt.ok for receipt in await group)
        assert shop.most_at_once() == 1
        assert sorted(shop.ended("a")) == [0, 1, 2, 3, 3]


async def test_a_handler_sends_in_order_as_well() -> None:
    shop = Workshop(2)
    boss = Agent("boss")

    @boss.capability("plan")
    async def plan(ctx: Context) -> None:
        for n in range(5):
            await ctx.send("work", message(n), order_key="k")

    async with shop.open() as bus:
        await bus.start(boss)
        handle = await bus.send("plan")
        await bus.advance(2)
        assert (await handle.receipt(0)).ok
        assert shop.ended("a") == [0, 1, 2, 3, 4]


async def test_later_ones_join_when_they_are_due() -> None:
    shop = Workshop(1)
    async with shop.open() as bus:
        await bus.send("work", message(1), order_key="k", delay=5)
        await bus.send("work", message(0), order_key="k")
        await bus.advance(1)
        assert shop.ended("a") == [0]
        await bus.advance(5)
        assert shop.ended("a") == [0, 1]


async def test_a_broadcast_is_in_no_line() -> None:
    shop = Workshop(2)
    async with shop.open() as bus:
        for n in range(2):
            await bus.send("capability:work", message(n), scope="all", order_key="k")
        await bus.advance(1)
        assert shop.most_at_once() == 4


@pytest.mark.parametrize("key", ["", "x" * 257, "a\nb", "\ud800"])
async def test_what_is_no_order_key_is_refused_before_it_is_sent(key: str) -> None:
    async with TestReach() as bus:
        receipt = await bus.request("capability:work", order_key=key)
        assert (receipt.code, receipt.details["field"]) == ("envelope.bad_field", "order_key")
        with pytest.raises(EnvelopeError, match="order_key"):
            await bus.send("capability:work", order_key=key)
        assert bus.sent == []
        assert bus.reach.outstanding == 0


async def test_an_order_key_is_a_str() -> None:
    async with TestReach() as bus:
        with pytest.raises(TypeError, match="order_key is 7"):
            await bus.send("work", order_key=7)  # type: ignore[arg-type]


async def test_who_is_released_when_nobody_is_there_is_waited_for_as_any_other() -> None:
    """It was held for longer than network_ms: that its agent is away just now is no reason to say that nobody offers it."""
    shop = Workshop(1)
    async with shop.open() as bus:
        first = Agent("first")

        @first.capability("slow")
        async def slow() -> None:
            assert shop.bus is not None
            await shop.bus.clock.sleep(8_000)

        await bus.start(first)
        one = await bus.send("capability:slow", order_key="k", timeout=120, ttl=120)
        two = await bus.send("capability:slow", order_key="k", timeout=120, ttl=120)
        await bus.advance(7.9)
        await bus.reach.backend.leave("first", first.instances[-1].registration.instance_id)
        await bus.advance(0.2)
        assert (await one.receipt(0)).ok
        await bus.advance(1)
        assert (await two.status()).legs[0].state in {"waiting", "queued", "running"}
        await bus.advance(20)
        assert (await two.receipt(0)).ok


async def test_over_partitions_the_order_key_chooses_where_everything_of_it_is() -> None:
    shop = Workshop(2)
    bus = shop.open()
    bus.store.make_hash(SPACE.meta())["partitions"] = b"4"
    async with bus:
        of = {key: partition_of("", key, 4) for key in ("a", "b", "c", "d", "e")}
        assert len(set(of.values())) > 1
        for key, partition in of.items():
            first = await bus.send("work", message(0, key), order_key=key, key=f"0 {key}")
            second = await bus.send("work", message(1, key), order_key=key, key=f"1 {key}")
            third = await bus.send("work", message(2, key), order_key=key)
            again = await bus.send("work", message(1, key), order_key=key, key=f"1 {key}")
            assert again.msg_id == second.msg_id
            assert bus.store.exists(SPACE.message(partition, first.msg_id))
            assert [leg.state for leg in (await second.status()).legs] == ["held"]
            assert await third.cancel() is True
        await bus.advance(1)
        assert all(shop.ended(key) == [0, 1] for key in of)


async def test_a_dead_letter_stays_in_its_partition_and_goes_to_the_end_of_its_line() -> None:
    shop = Workshop(1)
    bus = shop.open()
    bus.store.make_hash(SPACE.meta())["partitions"] = b"4"
    async with bus:
        for key in ("a", "b", "c"):
            shop.failing = {0: RuntimeError("once")}
            handle = await bus.send("work", message(0, key), order_key=key, max_attempts=1)
            await bus.advance(1)
            await bus.send("work", message(1, key), order_key=key)
            (letter,) = [each async for each in bus.reach.dead_letters.list()]
            assert letter.partition == partition_of("", key, 4)
            sent = await bus.reach.dead_letters.requeue(letter)
            assert (sent.msg_id, sent.remembered) == (handle.msg_id, True)
            await bus.advance(1)
            assert shop.ended(key) == [1, 0]
