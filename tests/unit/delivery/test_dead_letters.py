"""Dead letters, from their end to their second life."""

import asyncio
import json
from typing import Any, cast

import msgspec
import pytest

from reach import Agent, Context
from reach.backend.keys import KeySpace
from reach.backend.port import Backend
from reach.delivery.dead_letters import HISTORY, DeadLetter, DeadLetters
from reach.envelope.codec import DEFAULT_MAX_BYTES, decode, encode
from reach.envelope.rules import MAX_HEADERS_BYTES, partition_of
from reach.errors import BackendUnavailable, EnvelopeError, IngressFull
from reach.testing import TestReach

PAY = "capability:pay"
#: the total time of a message and its window, in seconds, and as much again as a router is late
FORGOTTEN_S = 30 + 60 + 10


class Wide:
    """A backend that says that it has more partitions, and writes down what it is asked to send."""

    def __init__(self, inner: Backend, partitions: int) -> None:
        self.env, self.partitions = inner.env, partitions
        self.inspect, self.snapshot = inner.inspect, inner.snapshot
        self.calls: list[tuple[str, int]] = []

    @property
    def backend(self) -> Backend:
        """Itself, as what it stands for."""
        return cast("Backend", self)

    async def requeue(self, partition: int, lane: str, envelope: bytes, letter: str) -> bool:
        self.calls.append(("requeue", partition))
        return True

    async def submit(self, partition: int, lane: str, envelope: bytes) -> str:
        self.calls.append(("submit", partition))
        return "1-1"

    async def drop_dead(self, partition: int, entry_ids: list[str]) -> int:
        self.calls.append(("drop_dead", partition))
        return len(entry_ids)


class Shop:
    """An agent that can be mended."""

    def __init__(self, name: str = "payer", capability: str = "pay") -> None:
        self.broken = True
        self.runs: list[tuple[str, Any]] = []
        self.headers: dict[str, str] = {}
        self.effects: list[str] = []
        self.agent = Agent(name, groups=("shops",))

        @self.agent.capability(capability)
        async def pay(body: Any, ctx: Context) -> str:
            self.runs.append((ctx.key, body))
            self.headers = ctx.headers
            await ctx.once("book", self.effects.append, ctx.msg_id)
            if self.broken:
                raise ValueError("down")
            return "paid"


async def letter_of(bus: TestReach) -> DeadLetter:
    (letter,) = [letter async for letter in bus.reach.dead_letters.list()]
    return letter


async def forgotten(bus: TestReach, letter: DeadLetter) -> None:
    """Until the message is remembered by nobody: its time and its window are over. The letter stays."""
    await bus.advance(FORGOTTEN_S)
    assert await bus.reach.backend.inspect(letter.partition, letter.msg_id) is None


async def test_a_letter_goes_on_as_the_next_round_of_its_message() -> None:
    shop = Shop()
    async with TestReach(shop.agent) as bus:
        first = await bus.request(PAY, 7, key="order-1", max_attempts=1)
        letter = await letter_of(bus)
        assert first.details["dead_letter"] == letter.id
        assert [(run["attempt"], run["code"]) for run in letter.attempts] == [(1, "handler.error")]
        shop.broken = False
        sent = await bus.reach.dead_letters.requeue(letter)
        assert (sent.msg_id, sent.round, sent.remembered) == (first.msg_id, 2, True)
        await bus.advance(1)
        assert shop.runs == [("order-1", 7)] * 2
        assert len(shop.effects) == 1, "its guards are kept"
        assert [each async for each in bus.reach.dead_letters.list()] == []
        again = await bus.request(PAY, 7, key="order-1")
        assert (again.output, again.stored, again.round) == ("paid", True, 2)


async def test_requeued_twice_or_cut_off_it_is_one_message() -> None:
    shop = Shop()
    async with TestReach(shop.agent) as bus:
        await bus.request(PAY, 7, key="order-1", max_attempts=1)
        shop.broken = False
        letter = await letter_of(bus)
        bus.client_backend.fail("requeue", error=BackendUnavailable("cut off"))
        with pytest.raises(BackendUnavailable):
            await bus.reach.dead_letters.requeue(letter)
        assert await letter_of(bus) == letter, "it was not lost"
        bus.client_backend.lose_reply("requeue")
        with pytest.raises(BackendUnavailable):
            await bus.reach.dead_letters.requeue(letter)
        one, two = [await bus.reach.dead_letters.requeue(letter) for _ in range(2)]
        assert (one, one.sent) == (two, False)
        await bus.advance(1)
    assert len(shop.runs) == 2


@pytest.mark.parametrize("case", ["same target", "another target", "a leg of a broadcast"])
async def test_requeued_again_when_all_is_forgotten_it_is_not_sent_again(case: str) -> None:
    """Who was cut off comes back the next day: no dedup window reaches so far, and the letter is gone."""
    shop, other = Shop(), Shop("bank", "transfer")
    target = "capability:transfer" if case == "another target" else None
    async with TestReach(shop.agent, other.agent) as bus:
        scope: Any = "all" if case == "a leg of a broadcast" else "one"
        await bus.send(PAY, 7, max_attempts=1, scope=scope)
        await bus.advance(1)
        letter = await letter_of(bus)
        await forgotten(bus, letter)
        shop.broken = other.broken = False
        bus.client_backend.lose_reply("requeue")
        with pytest.raises(BackendUnavailable):
            await bus.reach.dead_letters.requeue(letter, target=target)
        await bus.advance(1)
        assert len(shop.runs) + len(other.runs) == 2
        await forgotten(bus, letter)
        again = await bus.reach.dead_letters.requeue(letter, target=target)
        await bus.advance(1)
        assert not again.sent
        assert len(shop.runs) + len(other.runs) == 2
        assert [each async for each in bus.reach.dead_letters.list()] == []


async def test_where_no_router_takes_it_the_letter_stays() -> None:
    shop = Shop()
    async with TestReach(shop.agent) as bus:
        await bus.request(PAY, 7, max_attempts=1)
        letter = await letter_of(bus)
        bus.client_backend.fail("requeue", error=IngressFull("full"))
        with pytest.raises(IngressFull):
            await bus.reach.dead_letters.requeue(letter)
        assert await letter_of(bus) == letter


async def test_a_letter_goes_on_in_its_own_partition_and_two_steps_do_where_there_are_more_of_them_now() -> None:
    shop = Shop()
    async with TestReach(shop.agent) as bus:
        await bus.request(PAY, 7, max_attempts=1)
        letter = await letter_of(bus)
        wide = Wide(bus.reach.backend, partitions=4)
        letters = DeadLetters(wide.backend)
        for partition in range(4):
            own = msgspec.structs.replace(letter, partition=partition)
            sent = await letters.requeue(own, target="capability:transfer")
            assert partition_of(sent.msg_id, None, 4) == partition
        assert wide.calls == [("requeue", n) for n in range(4)]
        wide.calls.clear()
        home = partition_of(letter.msg_id, None, 4)
        sent = await letters.requeue(msgspec.structs.replace(letter, partition=(home + 1) % 4))
        assert sent.sent
        assert wide.calls == [("submit", home), ("drop_dead", (home + 1) % 4)]


async def test_what_dies_again_keeps_its_history() -> None:
    shop = Shop()
    async with TestReach(shop.agent) as bus:
        await bus.request(PAY, 7, key="order-1", max_attempts=1)
        for lives in (2, 3):
            await bus.advance(1)
            await bus.reach.dead_letters.requeue(await letter_of(bus))
            await bus.advance(1)
            assert len((await letter_of(bus)).attempts) == lives
        await forgotten(bus, await letter_of(bus))
        assert not (await bus.reach.dead_letters.requeue(await letter_of(bus))).remembered
        await bus.advance(1)
        letter = await letter_of(bus)
        assert [run["agent"] for run in letter.attempts] == ["payer"] * 4
        assert len({run["at"] for run in letter.attempts}) == 4


async def test_another_target_is_a_message_of_its_own() -> None:
    shop, other = Shop(), Shop("bank", "transfer")
    other.broken = False
    async with TestReach(shop.agent, other.agent) as bus:
        first = await bus.request(PAY, 7, key="order-1", max_attempts=1)
        letter = await letter_of(bus)
        sent = await bus.reach.dead_letters.requeue(letter, target="capability:transfer")
        assert (sent.msg_id != first.msg_id, sent.remembered) == (True, False)
        for name in ("capability:transfer", "transfer"):  # a bare name is the pattern that it means
            again = await bus.reach.dead_letters.requeue(letter, target=name)
            assert (again.msg_id, again.sent) == (sent.msg_id, False)
        await bus.advance(1)
        assert other.runs == [("order-1", 7)]
        (header,) = json.loads(other.headers[HISTORY])
        assert header["agent"] == "payer"


async def test_what_failed_for_good_is_sent_as_a_message_of_its_own() -> None:
    """A letter may hold a message that no round can open again: one that brought a router down."""
    shop = Shop()
    shop.broken = False
    async with TestReach(shop.agent) as bus:
        done = await bus.request(PAY, 7, key="order-1")
        envelope = next(sent for sent in bus.sent if sent.msg_id == done.msg_id)
        fields = {b"m": done.msg_id.encode(), b"e": encode(envelope), b"r": b'{"status":"failed"}', b"h": b"[]"}
        bus.store.append(KeySpace("dev").dead(0), fields)
        letter = await letter_of(bus)
        sent = await bus.reach.dead_letters.requeue(letter)
        assert (sent.msg_id != done.msg_id, sent.round) == (True, 1)
        await bus.advance(1)
    assert len(shop.runs) == 2


@pytest.mark.parametrize("is_forgotten", [False, True])
async def test_of_a_broadcast_only_the_leg_that_died_runs_again(is_forgotten: bool) -> None:
    good, bad = Shop("good"), Shop("bad")
    good.broken = False
    async with TestReach(good.agent, bad.agent) as bus:
        handle = await bus.send("group:shops", 7, scope="all", max_attempts=1)
        await bus.advance(1)
        assert sorted(receipt.status for receipt in await handle.receipts(0)) == ["retryable", "success"]
        bad.broken = False
        if is_forgotten:
            await forgotten(bus, await letter_of(bus))
        await bus.reach.dead_letters.requeue(await letter_of(bus))
        await bus.advance(1)
    assert (len(good.runs), len(bad.runs)) == (1, 2)


@pytest.mark.parametrize("envelope", [b"", b"junk", b"[1]", b'{"msg_id":1}'])
async def test_junk_cannot_be_requeued_and_stays(envelope: bytes) -> None:
    async with TestReach() as bus:
        letter = DeadLetter(0, "1-1", "", envelope, b"junk", b"junk")
        assert (letter.attempts, letter.said.code) == ([], "")
        with pytest.raises(EnvelopeError):
            await bus.reach.dead_letters.requeue(letter)


async def letter_of_size(bus: TestReach, size_bytes: int) -> DeadLetter:
    """The letter of a message that has so many bytes as an envelope."""
    await bus.request(PAY, "", max_attempts=1)
    small = await letter_of(bus)
    await bus.reach.dead_letters.purge([small])
    await bus.request(PAY, "x" * (size_bytes - len(small.envelope)), max_attempts=1)
    letter = await letter_of(bus)
    assert len(letter.envelope) == size_bytes
    return letter


@pytest.mark.parametrize("spare", [20, 100, 400])
async def test_what_is_as_large_as_can_be_is_sent_without_its_history(spare: int) -> None:
    """For the history a router would refuse it, and it would be lost."""
    shop = Shop()
    async with TestReach(shop.agent) as bus:
        letter = await letter_of_size(bus, DEFAULT_MAX_BYTES - spare)
        shop.broken = False
        await bus.reach.dead_letters.requeue(letter)
        await bus.advance(1)
        assert len(shop.runs) == 3
        assert (HISTORY in shop.headers) == (spare == 400)


async def test_what_no_router_would_take_stays_a_letter() -> None:
    shop = Shop()
    async with TestReach(shop.agent) as bus:
        letter = await letter_of_size(bus, DEFAULT_MAX_BYTES)
        with pytest.raises(EnvelopeError, match=f"at most {DEFAULT_MAX_BYTES}"):
            await bus.reach.dead_letters.requeue(letter)
        envelope = msgspec.structs.replace(decode(letter.envelope), ttl_ms=0)
        with pytest.raises(EnvelopeError, match="ttl_ms"):
            await bus.reach.dead_letters.requeue(msgspec.structs.replace(letter, envelope=encode(envelope)))
        assert await letter_of(bus) == letter


async def test_a_target_that_is_no_pattern_is_refused_before_anything_is_done() -> None:
    shop = Shop()
    async with TestReach(shop.agent) as bus:
        await bus.request(PAY, 7, max_attempts=1)
        letter = await letter_of(bus)
        with pytest.raises(EnvelopeError) as refused:
            await bus.reach.dead_letters.requeue(letter, target="capability:UPPER")
        assert refused.value.code == "target.bad_pattern"
        assert await letter_of(bus) == letter


@pytest.mark.parametrize("others", [0, 3_000, MAX_HEADERS_BYTES - len("big") - len(HISTORY) - 10])
async def test_where_there_is_no_room_for_all_its_history_the_oldest_runs_go(others: int) -> None:
    shop = Shop()
    headers = {"big": "x" * others} if others else {}
    async with TestReach(shop.agent) as bus:
        await bus.request(PAY, 7, max_attempts=1, headers=headers)
        letter = await letter_of(bus)
        runs = [{"attempt": n, "agent": "payer", "code": "handler.error", "at": n} for n in range(200)]
        long = DeadLetter(
            letter.partition, letter.id, letter.msg_id, letter.envelope, letter.receipt, json.dumps(runs).encode()
        )
        shop.broken = False
        await bus.reach.dead_letters.requeue(long)
        await bus.advance(1)
        assert len(shop.runs) == 2, "a message with too long headers would have been refused"
        kept = json.loads(shop.headers.get(HISTORY, "[]"))
        assert kept == runs[len(runs) - len(kept) :]
        assert bool(kept) == (others < MAX_HEADERS_BYTES - 100)
        assert shop.headers.get("big", "") == "x" * others


async def test_purged_letters_are_gone() -> None:
    shop = Shop()
    async with TestReach(shop.agent) as bus:
        for body in range(3):
            await bus.request(PAY, body, max_attempts=1)
        letters = bus.reach.dead_letters
        first, *rest = [letter async for letter in letters.list()]
        assert await letters.purge([first]) == 1
        assert await letters.purge([first]) == 0
        assert [letter async for letter in letters.list()] == rest
        assert await letters.find(first.msg_id) is None
        assert await letters.find(rest[0].msg_id) == await letters.find(rest[0].id) == rest[0]


async def test_B030_a_poison_message_takes_down_max_attempts_instances_and_is_then_a_dead_letter() -> None:
    agents = [Agent("worker-{instance}", max_process=60) for _ in range(4)]
    started: list[str] = []
    for agent in agents:

        @agent.capability("work")
        async def work(body: Any, ctx: Context) -> str:
            if body == "poison":
                started.append(ctx.msg_id)
                await asyncio.Event().wait()  # the test kills the whole agent then
            return "done"

    async with TestReach(*agents) as bus:
        handle = await bus.send("work", "poison", max_attempts=2, timeout=120)
        for deaths in (1, 2):
            await bus.advance(1)
            assert len(started) == deaths
            holder = (await handle.status()).legs[0].agent
            victim = next(
                agent for agent in agents if agent.instances and agent.instances[0].registration.agent_id == holder
            )
            await bus.kill(victim)
            good = await bus.send("work", "good")
            await bus.advance(20)
            assert (await good.receipt(0)).ok, "the rest is served meanwhile"
        receipt = await handle.receipt(0)
        assert (receipt.code, receipt.attempts) == ("agent.lost", 2)
        assert (await letter_of(bus)).msg_id == receipt.msg_id
    assert len(started) == 2
