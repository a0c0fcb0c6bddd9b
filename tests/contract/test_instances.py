"""Who beats for an agent is known without looking through the beats of all others, and found there where it is not known."""

import pytest

from tests.contract.drive import Drive
from tests.contract.places import KEYS
from tests.contract.test_registry import CARD, READY, registered


async def known(drive: Drive) -> dict[bytes, bytes]:
    return await drive.place.fields(KEYS.instances())


async def beating(drive: Drive, agent: str = "a1") -> set[str]:
    return set((await drive.backend.registration(agent))[1])


async def test_it_follows_who_comes_and_goes(drive: Drive) -> None:
    stored = await registered(drive)
    await drive.backend.beat("a1", "i2", READY)
    await drive.backend.beat("a1", "i2", READY)
    assert await known(drive) == {b"a1": b"/i1/i2"}
    assert not await drive.backend.leave("a1", "i1")
    assert await known(drive) == {b"a1": b"/i2"}
    assert await drive.backend.leave("a1", "i2")
    assert await known(drive) == {b"a1": b""}, "the agent is registered, and nobody beats for it"
    assert await drive.backend.leave("a1", "i2")
    assert await drive.backend.remove("a1", stored, 1 << 50, "left")
    assert await known(drive) == {}


async def test_who_is_not_registered_leaves_nothing(drive: Drive) -> None:
    await drive.backend.beat("a1", "i1", b'{"state":"not_ready"}')
    assert await known(drive) == {b"a1": b"/i1"}
    assert (await drive.backend.register("a1", CARD, "i2", READY, None)).ok
    assert await beating(drive) == {"i1", "i2"}
    await drive.backend.beat("b", "i1", b'{"state":"draining"}')
    assert await drive.backend.leave("b", "i1")
    assert await known(drive) == {b"a1": b"/i1/i2"}


@pytest.mark.parametrize("lost", ["deleted", "another type"])
async def test_what_it_has_lost_is_found_among_all_beats(drive: Drive, lost: str) -> None:
    stored = await registered(drive)
    await registered(drive, "a1-other")
    await drive.backend.beat("a1", "i2", READY)
    await drive.place.delete(KEYS.instances())
    if lost == "another type":
        await drive.place.push(KEYS.instances(), "junk")
    assert await beating(drive) == {"i1", "i2"}
    assert not await drive.backend.leave("a1", "i1")
    assert await beating(drive) == {"i2"}
    assert not await drive.backend.remove("a1", stored, 1, "silent"), "i2 beats"
    assert (await drive.backend.register("a1", CARD, "i3", READY, stored)).ok
    assert await known(drive) == {b"a1": b"/i2/i3"}, "from the first that comes on it is whole again"
    assert not await drive.backend.leave("a1", "i3")
    assert await beating(drive) == {"i2"}


async def test_who_does_not_beat_any_more_does_not_count(drive: Drive) -> None:
    await registered(drive)
    await drive.place.delete(KEYS.beats())
    assert await beating(drive) == set()
    assert await drive.backend.leave("a1", "none"), "nobody beats"
    await drive.backend.beat("a1", "i1", READY)
    assert await beating(drive) == {"i1"}
