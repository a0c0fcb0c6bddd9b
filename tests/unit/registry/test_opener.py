"""The opener: inboxes of those who live are open, and of nobody else."""

import pytest

from reach.errors import BackendUnavailable, ScriptFailed
from reach.registry import opener as opener_module
from reach.registry.opener import Opener
from reach.registry.watcher import Watcher
from reach.routing.index import CapabilityIndex
from tests.unit.registry.place import Place


class Opened:
    """A place, and an opener that knows what a watcher tells it."""

    def __init__(self, partitions: int = 1) -> None:
        self.place = Place(partitions)
        self.backend = self.place.another()
        self.watcher = Watcher(self.backend, CapabilityIndex(), clock=self.place.clock)
        self.opener = Opener(self.backend, self.watcher.index, "w1", self.watcher.now_ms)

    async def run(self) -> int:
        return (await self.opener.run_once()).get("opened", 0)


@pytest.fixture
def opened() -> Opened:
    return Opened()


async def test_lost_inboxes_come_back_in_every_partition() -> None:
    opened = Opened(partitions=2)
    await opened.place.register("a")
    await opened.watcher.run_once()
    lanes = opened.place.lanes()
    assert await opened.run() == 0
    for key in lanes[::2]:
        opened.place.store.delete(key)
    assert await opened.run() == 2
    assert opened.place.lanes() == lanes
    opened.place.store.put(lanes[0], b"junk")
    assert await opened.run() == 1
    assert opened.place.store.type_of(lanes[0]) == "stream"


async def test_one_opener_at_a_time(opened: Opened) -> None:
    await opened.place.register("a")
    await opened.watcher.run_once()
    assert await opened.backend.lock("opener", "w2", 2_500)
    opened.place.store.delete(opened.place.lanes()[0])
    assert await opened.run() == 0
    opened.place.clock.advance(2_501)
    assert await opened.run() == 1


async def test_nothing_is_opened_for_who_is_silent_or_has_left(opened: Opened) -> None:
    await opened.place.register("a")
    await opened.watcher.run_once()
    opened.place.clock.advance(15_001)
    opened.watcher.index.known_until_ms = opened.place.clock.wall_ms()  # it has looked, and heard nothing
    for key in opened.place.lanes():
        opened.place.store.delete(key)
    assert await opened.run() == 0
    assert await opened.opener.reopen(0, "a") is False
    assert await opened.opener.reopen(0, "nobody") is False
    assert opened.place.lanes() == []


@pytest.mark.parametrize("how", ["leave", "flush"])
async def test_what_was_opened_for_who_is_just_leaving_is_closed_again(opened: Opened, how: str) -> None:
    """The index does not know it yet."""
    await opened.place.register("a")
    await opened.watcher.run_once()
    if how == "leave":
        await opened.backend.leave("a", "i1")
        await opened.backend.close_inbox(0, "a")
    else:
        opened.place.store.clear()
    assert await opened.run() == 0
    assert await opened.opener.reopen(0, "a") is False
    assert opened.place.lanes() == []


async def test_each_has_its_turn(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opener_module, "MAX_AGENTS", 2)
    for name in "abcde":
        await opened.place.register(name)
    await opened.watcher.run_once()
    for name in "abcde":
        for key in opened.place.lanes(name):
            opened.place.store.delete(key)
    assert [await opened.run() for _ in range(4)] == [2, 2, 1, 0]


async def test_reopening_tells_a_server_that_is_away_from_a_key_that_cannot_be_healed(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    await opened.place.register("a")
    await opened.watcher.run_once()
    assert await opened.opener.reopen(0, "a") is True

    async def fails(*_: object) -> bool:
        raise error

    monkeypatch.setattr(opened.backend, "open_inbox", fails)
    error: Exception = ScriptFailed("no")
    assert await opened.opener.reopen(0, "a") is False
    error = BackendUnavailable("down")
    with pytest.raises(BackendUnavailable):
        await opened.opener.reopen(0, "a")
