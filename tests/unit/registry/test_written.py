"""What somebody writes into the hashes of an env with plain commands is followed, though nobody tells it."""

import asyncio

import pytest

from reach.backend.memory_backend import MemoryBackend
from reach.backend.memory_backend.store import Hash
from reach.backend.steps import Written
from reach.registry.watcher import Complaints, Watcher
from reach.registry.written import LOOK_MS, MAX_LOOK_MS, SHARE, Looking
from reach.routing.index import CapabilityIndex
from tests.unit.registry.place import Place

WORK = "capability:work"
NO_INTERNS = b'{"source":"intern-*","target":"*","effect":"deny"}'


class Hand:
    """Somebody at a Redis prompt, and a router that looks."""

    def __init__(self) -> None:
        self.place = Place()
        self.backend = MemoryBackend(env="dev", store=self.place.store)
        self.watcher = Watcher(self.backend, CapabilityIndex(Complaints().hear), clock=self.place.clock)
        self.index = self.watcher.index
        self.looking = Looking(self.watcher, self.place.clock)

    def key(self, kind: str) -> str:
        return f"reach:{{dev}}:{kind}"

    def write(self, kind: str, name: str, value: bytes) -> None:
        """HSET."""
        self.place.store.make_hash(self.key(kind))[name] = value

    def take_out(self, kind: str, name: str) -> None:
        """HDEL."""
        del self.place.store.make_hash(self.key(kind))[name]

    async def told(self) -> None:
        """Take in what was told, and no more."""
        await self.watcher.catch_up()

    def strategy(self) -> str | None:
        return self.index.policy(WORK).strategy

    def may_call(self, source: str) -> bool:
        caller = self.index.caller(source, "")
        return caller is None


@pytest.fixture
async def hand() -> Hand:
    made = Hand()
    await made.watcher.run_once()
    return made


async def test_a_policy_that_is_written_by_hand_is_followed(hand: Hand) -> None:
    assert await hand.looking.run_once() == {}
    hand.write("routes", WORK, b'{"strategy":"direct"}')
    assert await hand.looking.run_once() == {"changes": 1}
    assert hand.strategy() == "direct"
    assert await hand.looking.run_once() == {}
    hand.write("routes", WORK, b'{"strategy":"sticky"}')
    await hand.looking.run_once()
    assert hand.strategy() == "sticky"
    hand.take_out("routes", WORK)
    await hand.looking.run_once()
    assert not hand.index.has_policy(WORK)


async def test_so_are_types_settings_and_rules(hand: Hand) -> None:
    hand.write("types", "market.news", b"1")
    hand.write("meta", "max_fanout", b"3")
    hand.write("rules", "no-interns", NO_INTERNS)
    assert await hand.looking.run_once() == {"changes": 3}
    assert hand.index.has_type("market.news")
    assert hand.index.setting("max_fanout", 0) == 3
    assert not hand.may_call("intern-1")
    for kind, name in (("types", "market.news"), ("meta", "max_fanout"), ("rules", "no-interns")):
        hand.take_out(kind, name)
    assert await hand.looking.run_once() == {"changes": 3}
    assert not hand.index.has_type("market.news")
    assert hand.index.setting("max_fanout", 0) == 0
    assert hand.may_call("intern-1")


async def test_what_stands_there_with_nothing_in_it_opens_nothing(hand: Hand) -> None:
    """Neither where a router looks, nor where one starts."""
    hand.write("rules", "blank", b"")
    hand.write("meta", "closed", b"")
    hand.write("routes", WORK, b"")
    later = Watcher(hand.backend, CapabilityIndex(), clock=hand.place.clock)
    await later.run_once()
    assert await hand.looking.run_once() == {"changes": 3}
    for index in (hand.index, later.index):
        assert index.access.unread == ("blank",)
        assert index.access.closed
        assert not index.has_policy(WORK)
        assert index.unreadable == 1 + 1, "the rule and the policy"


async def test_a_told_change_that_was_read_already_undoes_nothing(hand: Hand) -> None:
    await hand.backend.set_meta("routes", WORK, b'{"strategy":"sticky"}')
    hand.write("routes", WORK, b'{"strategy":"direct"}')
    await hand.looking.run_once()  # before what was told of the first one
    assert hand.strategy() == "direct"
    await hand.told()
    assert hand.strategy() == "direct"


async def test_back_to_what_it_was_before_a_told_change(hand: Hand) -> None:
    hand.write("routes", WORK, b'{"strategy":"direct"}')
    await hand.looking.run_once()
    await hand.backend.set_meta("routes", WORK, b'{"strategy":"sticky"}')
    await hand.told()
    assert hand.strategy() == "sticky"
    hand.write("routes", WORK, b'{"strategy":"direct"}')
    await hand.looking.run_once()
    assert hand.strategy() == "direct"


class Slow(MemoryBackend):
    """Its answer to `written` comes when it is let."""

    go: asyncio.Event

    async def written(self) -> Written:
        found = await super().written()
        await self.go.wait()
        return found


async def test_an_answer_that_is_older_than_what_was_told_since_is_left_aside() -> None:
    place = Place()
    backend = Slow(env="dev", store=place.store)
    backend.go = asyncio.Event()
    watcher = Watcher(backend, CapabilityIndex(), clock=place.clock)
    assert await watcher.look() == 0, "it knows nobody yet"
    await watcher.run_once()
    look = asyncio.ensure_future(watcher.look())
    await asyncio.sleep(0)
    await place.backend.set_meta("routes", WORK, b'{"strategy":"sticky"}')
    await watcher.catch_up()
    backend.go.set()
    assert await look == 0
    assert watcher.index.policy(WORK).strategy == "sticky"
    assert await watcher.look() == 0
    assert watcher.index.policy(WORK).strategy == "sticky"


async def test_rules_that_are_none_allow_nothing_until_they_are_some_again(hand: Hand) -> None:
    hand.write("rules", "no-interns", NO_INTERNS)
    await hand.looking.run_once()
    hand.place.store.put(hand.key("rules"), b"not what it should be")
    assert await hand.looking.run_once()
    assert not hand.may_call("shop-1")
    assert await hand.looking.run_once() == {}
    hand.place.store.put(hand.key("rules"), Hash({"no-interns": NO_INTERNS}))
    await hand.looking.run_once()
    assert (hand.may_call("shop-1"), hand.may_call("intern-1")) == (True, False)
    hand.place.store.put(hand.key("rules"), b"not what it should be")
    await hand.looking.run_once()
    hand.place.store.delete(hand.key("rules"))
    await hand.looking.run_once()
    assert hand.may_call("intern-1")


class Heavy(MemoryBackend):
    """Each look takes a while."""

    took_ms = 0

    async def written(self) -> Written:
        self._store.clock.advance(self.took_ms)  # type: ignore[attr-defined]
        return await super().written()


@pytest.mark.parametrize(("took_ms", "wait_ms"), [(0, LOOK_MS), (10, 10 * SHARE), (200, MAX_LOOK_MS)])
async def test_what_takes_long_is_looked_at_less_often(took_ms: int, wait_ms: int) -> None:
    place = Place()
    backend = Heavy(env="dev", store=place.store)
    backend.took_ms = took_ms
    watcher = Watcher(backend, CapabilityIndex(), clock=place.clock)
    await watcher.run_once()
    looking = Looking(watcher, place.clock)
    assert looking.interval_ms == LOOK_MS
    await looking.run_once()
    assert looking.interval_ms == wait_ms
