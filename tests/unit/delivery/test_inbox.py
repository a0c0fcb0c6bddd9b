"""The agent's side of a message, against a real router and ledger on memory."""

import asyncio
import copy
from collections.abc import AsyncIterator, Sequence

import pytest

from reach.backend.keys import KeySpace
from reach.backend.memory_backend import MemoryBackend, Store
from reach.backend.steps import Answer, Settlement, SettleVerdict, Taken
from reach.delivery.answers import make_answer
from reach.delivery.inbox import GIVE_UP_AFTER_MS, Inbox, hold_of
from reach.envelope.records import encode_registration
from reach.envelope.registration import Capability, Registration
from reach.errors import BackendUnavailable, ScriptFailed
from reach.testing import FaultyBackend, TestReach
from tests.manual_clock import ManualClock

DONE = make_answer("success", "ok", output=b"1")


class Hand:
    """An inbox without an agent around it: what it does, the test does by hand."""

    def __init__(self, bus: TestReach, backend: FaultyBackend) -> None:
        self.bus = bus
        self.backend = backend
        self.inbox = Inbox(backend.backend, "one", "i1", bus.clock)

    async def send(self, count: int = 1) -> None:
        for _ in range(count):
            await self.bus.send("capability:work")
        await self.bus.settle()

    async def settle(self, taken: Taken, answer: Answer = DONE, wait_ms: int = -1) -> "asyncio.Task[str]":
        """Give the answer; written by the next `inbox.run_once`."""
        task: asyncio.Task[str] = asyncio.create_task(self.inbox.settle(taken, answer, wait_ms=wait_ms))
        await asyncio.sleep(0)
        return task


@pytest.fixture
async def hand() -> AsyncIterator[Hand]:
    async with TestReach() as bus:
        made = Hand(bus, FaultyBackend(bus.place.backend()))
        backend = made.backend.backend
        await backend.open()
        await backend.open_inbox(0, "one")
        declared = Registration(agent_id="one", instance_id="i1", capabilities=(Capability(name="work"),))
        assert (await backend.register("one", encode_registration(declared), "i1", b"{}", None)).ok
        await bus.settle()
        yield made
        await backend.close()


async def test_no_more_is_taken_than_there_are_slots(hand: Hand) -> None:
    await hand.send(3)
    assert len(await hand.inbox.take(2)) == 2
    assert len(await hand.inbox.take(2)) == 1
    assert await hand.inbox.take(2) == []


async def test_the_bell_rings_for_what_comes_later(hand: Hand) -> None:
    assert await hand.inbox.wait(1) is True  # nothing was looked at yet
    assert await hand.inbox.take(1) == []
    waiting = asyncio.create_task(hand.inbox.wait(2_000))
    await hand.send()
    assert await waiting is True
    assert len(await hand.inbox.take(1)) == 1
    waiting = asyncio.create_task(hand.inbox.wait(2_000))
    await hand.bus.advance(2)
    assert await waiting is False


async def test_what_is_held_is_known_by_its_hand_until_it_is_settled(hand: Hand) -> None:
    await hand.send(2)
    one, two = await hand.inbox.take(2)
    assert hand.inbox.holds() == {0: {"normal": [one.hand, two.hand]}}
    settling = await hand.settle(one)
    assert hand.inbox.unsettled == 1
    assert hand.inbox.holds()[0]["normal"] == [one.hand, two.hand]  # the ledger has not said so yet
    assert await hand.inbox.run_once() == {"settled": 1}
    assert await settling == "done"
    assert hand.inbox.holds() == {0: {"normal": [two.hand]}}
    hand.inbox.forget(hold_of(two))
    hand.inbox.forget(hold_of(two))
    assert hand.inbox.holds() == {}


async def test_work_whose_reply_was_lost_comes_again_and_only_that(hand: Hand) -> None:
    await hand.send(2)
    first = (await hand.inbox.take(1))[0]
    hand.backend.lose_reply("take")
    with pytest.raises(BackendUnavailable):
        await hand.inbox.take(1)
    (second,) = await hand.inbox.take(1)  # what is held takes no place
    assert second.hand != first.hand
    assert second.attempt == 1  # burnt nothing
    assert await hand.inbox.take(5) == []
    for taken in (first, second):
        task = await hand.settle(taken)
        await hand.inbox.run_once()
        assert await task == "done"


async def test_what_did_not_fit_comes_again_with_the_next_take(hand: Hand) -> None:
    await hand.send(3)
    hand.backend.lose_reply("take")
    with pytest.raises(BackendUnavailable):
        await hand.inbox.take(3)
    assert await hand.inbox.wait(2_000) is True  # at once: no bell rings for what was taken
    assert len(await hand.inbox.take(2)) == 2
    assert await hand.inbox.wait(2_000) is True
    assert len(await hand.inbox.take(2)) == 1
    waiting = asyncio.create_task(hand.inbox.wait(2_000))
    await hand.bus.advance(2)
    assert await waiting is False


async def test_a_low_message_comes_although_there_is_always_a_higher_one(hand: Hand) -> None:
    await hand.bus.send("capability:work", priority=1)
    lanes = []
    for _ in range(8):
        await hand.bus.send("capability:work", priority=9)
        await hand.bus.settle()
        lanes += [taken.lane for taken in await hand.inbox.take(1)]
    assert lanes == ["high"] * 7 + ["low"]


async def test_an_inbox_that_is_gone_is_opened_again(hand: Hand) -> None:
    for key in [key for key in hand.bus.store.keys() if ":inbox:one:" in key]:  # noqa: SIM118 - a store, no dict
        hand.bus.store.delete(key)
    assert await hand.inbox.take(1) == []
    await hand.send()
    assert len(await hand.inbox.take(1)) == 1


async def test_a_lost_reply_to_a_settle_is_asked_for_again(hand: Hand) -> None:
    await hand.send()
    (taken,) = await hand.inbox.take(1)
    task = await hand.settle(taken)
    hand.backend.lose_reply("settle")
    with pytest.raises(BackendUnavailable):
        await hand.inbox.run_once()
    assert not task.done()
    await hand.inbox.run_once()
    assert await task == "done"  # repeated by the one that closed it
    await hand.bus.settle()
    assert len(hand.bus.receipts) == 1


async def test_an_answer_of_somebody_who_no_longer_holds_it_changes_nothing(hand: Hand) -> None:
    await hand.send()
    (taken,) = await hand.inbox.take(1)
    task = await hand.settle(taken)
    await hand.inbox.run_once()
    late = Inbox(hand.backend.backend, "one", "i2", hand.bus.clock)
    second = asyncio.create_task(late.settle(taken, make_answer("failed", "handler.rejected")))
    await asyncio.sleep(0)
    await late.run_once()
    assert (await task, await second) == ("done", "stale")


async def test_a_return_that_burns_nothing(hand: Hand) -> None:
    await hand.send()
    (taken,) = await hand.inbox.take(1)
    await hand.settle(taken, make_answer("retryable", "agent.lost"), 0)
    await hand.inbox.run_once()
    await hand.bus.settle()
    (again,) = await hand.inbox.take(1)
    assert (again.msg_id, again.attempt) == (taken.msg_id, 1)
    assert again.hand != taken.hand


async def test_one_answer_that_is_refused_does_not_hold_up_the_others(
    hand: Hand, caplog: pytest.LogCaptureFixture
) -> None:
    await hand.send(2)
    tasks = [await hand.settle(taken) for taken in await hand.inbox.take(2)]
    hand.backend.fail("settle", error=ScriptFailed("no"), times=2)  # the batch, and the first of it alone
    assert await hand.inbox.run_once() == {"settled": 2}
    assert [await task for task in tasks] == ["unknown", "done"]
    assert "answer refused" in caplog.text


async def test_an_answer_that_nobody_takes_is_given_up_in_the_end(hand: Hand) -> None:
    await hand.send()
    (taken,) = await hand.inbox.take(1)
    task = await hand.settle(taken)
    hand.backend.fail("settle", times=3)
    with pytest.raises(BackendUnavailable):
        await hand.inbox.run_once()
    hand.bus.clock.advance(30_000 + GIVE_UP_AFTER_MS)
    with pytest.raises(BackendUnavailable):
        await hand.inbox.run_once()
    assert await task == "unknown"
    assert (hand.inbox.unsettled, hand.inbox.holds()) == (0, {})


async def test_what_one_partition_gave_is_not_lost_when_the_next_one_fails() -> None:
    async with TestReach() as bus:
        raw = bus.place.backend()
        await raw.open()
        await raw.set_meta("meta", "partitions", b"2")
        backend = FaultyBackend(bus.place.backend())
        await backend.backend.open()
        inbox = Inbox(backend.backend, "one", "i1", bus.clock)
        for _ in range(2):
            assert await inbox.take(1) == []  # opens both
        backend.fail("take", before=False)
        with pytest.raises(BackendUnavailable):
            await inbox.take(1)
        assert await inbox.take(4) == []
        assert await inbox.wait(0) is False
        backend.fail("ring")
        with pytest.raises(BackendUnavailable):
            await inbox.wait(0)
        await raw.close()
        await backend.backend.close()


class Slow(MemoryBackend):
    """Writes no answer before it is let."""

    def __init__(self, store: Store) -> None:
        super().__init__(store=store)
        self.asked: list[int] = []
        self.let = asyncio.Event()
        self.refuse = -1

    async def settle(self, partition: int, agent_id: str, settlements: Sequence[Settlement]) -> list[SettleVerdict]:
        self.asked.append(partition)
        await self.let.wait()
        if partition == self.refuse:
            raise BackendUnavailable("this partition is away")
        return ["done"] * len(settlements)


def held_in(partition: int) -> Taken:
    return Taken(partition, "normal", "1-1", "m", 0, 1, b"", 0, 30_000, 15_000)


async def test_the_answers_of_all_partitions_are_written_side_by_side() -> None:
    backend = Slow(Store(ManualClock()))
    inbox = Inbox(backend, "one", "i1", ManualClock())
    tasks = [asyncio.create_task(inbox.settle(held_in(partition), DONE)) for partition in (0, 1, 2)]
    await asyncio.sleep(0)
    writing = asyncio.create_task(inbox.run_once())
    for _ in range(5):
        await asyncio.sleep(0)
    assert backend.asked == [0, 1, 2]
    backend.let.set()
    assert await writing == {"settled": 3}
    assert [await task for task in tasks] == ["done"] * 3


async def test_a_partition_that_is_away_does_not_hold_up_the_others() -> None:
    backend = Slow(Store(ManualClock()))
    backend.let.set()
    backend.refuse = 0
    inbox = Inbox(backend, "one", "i1", ManualClock())
    tasks = [asyncio.create_task(inbox.settle(held_in(partition), DONE)) for partition in (0, 1)]
    await asyncio.sleep(0)
    with pytest.raises(BackendUnavailable):
        await inbox.run_once()
    assert (inbox.unsettled, await tasks[1]) == (1, "done")
    backend.refuse = -1
    assert await inbox.run_once() == {"settled": 1}
    assert await tasks[0] == "done"


async def test_a_lane_that_lost_its_group_is_opened_told_and_what_ran_comes_again_if_it_was_given_up(
    hand: Hand,
) -> None:
    told: list[str] = []
    hand.inbox = Inbox(hand.backend.backend, "one", "i1", hand.bus.clock, lambda: told.append("gone"))
    await hand.send(2)
    kept, lost = await hand.inbox.take(2)
    hand.inbox.forget(hold_of(lost))  # its renewal found nothing
    stream = hand.bus.store.stream(KeySpace("dev").inbox(0, "one", "normal"))
    assert stream is not None
    stream.groups.clear()
    assert await hand.inbox.take(5) == []
    assert told == ["gone"]
    assert await hand.inbox.wait(1) is True  # at once: the next take names what is held
    assert [one.hand for one in await hand.inbox.take(5)] == [lost.hand]
    assert await hand.inbox.take(5) == []
    settling = [await hand.settle(one) for one in (kept, lost)]
    await hand.inbox.run_once()
    assert [await one for one in settling] == ["done", "done"]
    assert told == ["gone"]


async def test_what_a_server_gives_anew_and_is_held_is_not_taken_twice(hand: Hand) -> None:
    """It has come back without its last second: the entry lies there undelivered, and the ledger has it as queued."""
    await hand.send(2)
    record = copy.deepcopy(hand.bus.store._values)
    one, two = await hand.inbox.take(2)
    hand.bus.store._values.update(record)
    hand.inbox.connection_lost()
    hand.inbox.forget(hold_of(two))  # a renewal has found nothing: this one is not ours any more
    assert [taken.hand for taken in await hand.inbox.take(5)] == [two.hand]
    assert await hand.inbox.take(5) == []
    assert hand.inbox.holds() == {0: {"normal": [one.hand, two.hand]}}
    settling = [await hand.settle(taken) for taken in (one, two)]
    await hand.inbox.run_once()
    assert [await task for task in settling] == ["done", "done"]
