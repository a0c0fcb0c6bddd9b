"""Who is gone: removed only where it shows no life, remembered for a day, with when and why; beats that nobody can have made."""

import json

import pytest

from reach.backend import bounds
from reach.errors import BackendError
from tests.contract.drive import Drive
from tests.contract.places import KEYS

CARD = b'{"agent_id":"a1"}'
READY = b'{"state":"ready"}'
NEVER = 1 << 52  # no beat is as late as that


def tombstone(at_ms: int) -> bytes:
    return b'{"gone_at":%d,"v":1,"why":"left"}' % at_ms


async def registered(drive: Drive, agent: str = "a1", instance: str = "i1") -> bytes:
    assert (await drive.backend.register(agent, CARD, instance, READY, None)).ok
    return await drive.backend.registered(agent) or b""


async def test_a_tombstone_says_when_why_and_when_it_was_seen_last(drive: Drive) -> None:
    for agent, why in (("a1", "silent"), ("a2", "left"), ("a3", "removed")):
        stored = await registered(drive, agent)
        seen_ms = (await drive.backend.registration(agent))[1]["i1"]
        if why == "left":
            await drive.backend.leave(agent, "i1")
        assert await drive.backend.remove(agent, stored, NEVER, why)  # type: ignore[arg-type]
        told = json.loads((await drive.backend.snapshot()).gone[agent])
        assert (told["why"], told.get("seen_at")) == (why, None if why == "left" else seen_ms)
        assert seen_ms <= told["gone_at"] <= await drive.backend.now_ms()
        change = (await drive.backend.changes("0-0", 0))[-1]
        assert (change.op, change.name, json.loads(change.data)) == ("gone", agent, told)
        assert change.version == told["v"]


async def test_who_has_shown_life_since_is_not_removed(drive: Drive) -> None:
    """The reaper stood still between its look and its step."""
    stored = await registered(drive)
    await drive.place.pass_time(31_000)
    before_ms = await drive.backend.now_ms() - 30_000
    await drive.backend.beat("a1", "i2", READY)
    version = (await drive.backend.snapshot()).version
    assert not await drive.backend.remove("a1", stored, before_ms, "silent")
    assert await drive.backend.registered("a1") == stored
    assert set((await drive.backend.registration("a1"))[1]) == {"i1", "i2"}
    assert (await drive.backend.snapshot()).version == version
    assert (await drive.backend.snapshot()).gone == {}
    await drive.place.pass_time(61_000)
    assert await drive.backend.remove("a1", stored, before_ms + 61_000, "silent")


async def test_what_is_gone_is_gone_and_told_once(drive: Drive) -> None:
    stored = await registered(drive)
    assert await drive.backend.remove("a1", stored, NEVER, "left")
    version = (await drive.backend.snapshot()).version
    assert await drive.backend.remove("a1", stored, 0, "silent")
    assert await drive.backend.remove("nobody", b"{}", 0, "silent")
    snapshot = await drive.backend.snapshot()
    assert (snapshot.version, json.loads(snapshot.gone["a1"])["why"]) == (version, "left")


async def test_an_instance_that_has_shown_life_since_is_not_forgotten(drive: Drive) -> None:
    await registered(drive)
    await drive.backend.beat("a1", "i2", READY)
    await drive.place.pass_time(31_000)
    before_ms = await drive.backend.now_ms() - 30_000
    await drive.backend.beat("a1", "i1", READY)
    cursor = (await drive.backend.snapshot()).cursor
    assert await drive.backend.leave("a1", "i1", before_ms) is False
    assert await drive.backend.changes(cursor, 0) == []
    assert await drive.backend.leave("a1", "i2", before_ms) is False
    assert set((await drive.backend.registration("a1"))[1]) == {"i1"}
    assert await drive.backend.leave("a1", "i1") is True


async def test_the_tombstone_of_one_that_comes_back_vanishes(drive: Drive) -> None:
    await drive.backend.remove("a1", await registered(drive), NEVER, "silent")
    assert set((await drive.backend.snapshot()).gone) == {"a1"}
    await registered(drive, instance="i2")
    assert (await drive.backend.snapshot()).gone == {}


async def test_a_day_later_nobody_remembers(drive: Drive) -> None:
    now_ms = await drive.backend.now_ms()
    ages_ms = {"older": bounds.DAY_MS + 1, "younger": bounds.DAY_MS - 60_000}
    await drive.place.put_fields(KEYS.agents(), {name: tombstone(now_ms - ms) for name, ms in ages_ms.items()})
    await registered(drive)
    assert set((await drive.backend.snapshot()).gone) == {"younger"}


async def test_of_too_many_the_oldest_go(drive: Drive) -> None:
    """Agents that take a new name at each start leave one for each."""
    now_ms = await drive.backend.now_ms()
    many = bounds.MAX_GONE + 40
    await drive.place.put_fields(
        KEYS.agents(),
        {f"old-{n}": tombstone(now_ms - many + n) for n in range(many)},
    )
    for number in range(200):
        agent = f"a{number}"
        assert await drive.backend.remove(agent, await registered(drive, agent), NEVER, "left")
    gone = (await drive.backend.snapshot()).gone
    assert len(gone) <= bounds.MAX_GONE + 5
    assert {f"a{number}" for number in range(200)} <= gone.keys()


async def test_a_beat_from_the_future_counts_from_now(drive: Drive) -> None:
    """The clock has stepped back, and its agent has died: else it would live until then."""
    await registered(drive)
    await registered(drive, "a2")
    await drive.place.pass_time(-3_600_000)
    now_ms = await drive.backend.now_ms()
    await drive.backend.beat("a2", "i1", READY)
    assert await drive.backend.overdue_beats(now_ms - 30_000) == []
    assert (await drive.backend.registration("a1"))[1]["i1"] - now_ms < 1_000
    await drive.place.pass_time(31_000)
    await drive.backend.beat("a2", "i1", READY)
    ((agent, instance, _),) = await drive.backend.overdue_beats(await drive.backend.now_ms() - 30_000)
    assert (agent, instance) == ("a1", "i1")


@pytest.mark.parametrize(
    ("agent", "instance", "beat"),
    [
        ("a1", "i1", b'{"reason":"' + b"x" * bounds.MAX_BEAT_BYTES + b'"}'),
        ("a1/i1", "i2", b'{"state":"draining"}'),
        ("a1", "i1/i2", READY),
        ("", "i1", b'{"state":"draining"}'),
        ("a1", "", READY),
        ("a 1", "i1", READY),
        ("a1", "i1\n", READY),
        ("a" * 129, "i1", b'{"state":"draining"}'),
        ("a1", "-i", READY),
    ],
)
async def test_a_beat_that_is_none_is_refused_and_changes_nothing(
    drive: Drive, agent: str, instance: str, beat: bytes
) -> None:
    await registered(drive)
    _, before = await drive.backend.last_beats(0)
    version = (await drive.backend.snapshot()).version
    with pytest.raises(BackendError, match="REACH_BAD_BEAT") as told:
        await drive.backend.beat(agent, instance, beat)
    assert not told.value.retryable
    assert (await drive.backend.last_beats(0))[1] == before
    assert (await drive.backend.snapshot()).version == version


async def test_the_longest_beat_and_the_longest_names_are_taken(drive: Drive) -> None:
    await registered(drive)
    beat = b'{"reason":"' + b"x" * (bounds.MAX_BEAT_BYTES - 13) + b'"}'
    assert (await drive.backend.beat("a1", "i" * 128, beat)).known
    assert max((last.beat for last in (await drive.backend.last_beats(0))[1]), key=len) == beat


async def test_the_moment_is_now(drive: Drive) -> None:
    before_ms = await drive.backend.now_ms()
    assert before_ms <= await drive.backend.moment() <= await drive.backend.now_ms()
