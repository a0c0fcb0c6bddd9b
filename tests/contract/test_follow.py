"""Groups that read `events`: each batch at least once, what was trimmed unread is told, nothing is told twice after it is finished."""

from typing import Any

import pytest

from reach.backend.followed import Followed
from tests.contract.drive import Drive
from tests.contract.places import KEYS

pytestmark = pytest.mark.leaves_work(why="a group of readers stays, as in life")


async def write(drive: Drive, *batches: bytes) -> None:
    for batch in batches:
        await drive.backend.record(0, batch)


async def follow(drive: Drive, reader: str = "r1", group: str = "archive", **how: Any) -> Followed:
    return await drive.backend.follow_events(0, group, reader, **how)


def told(followed: Followed) -> list[bytes]:
    return [batch for _, batch in followed.batches]


def missed(followed: Followed) -> int:
    return len(followed.gone) + (followed.trimmed.count if followed.trimmed is not None else 0)


async def finish(drive: Drive, followed: Followed, group: str = "archive") -> None:
    await drive.backend.finish_events(0, group, [*followed.gone, *(entry_id for entry_id, _ in followed.batches)])


async def keep_two(drive: Drive) -> None:
    await drive.backend.set_meta("meta", "max_events", b"2")
    await drive.backend.close()
    drive.backend = await drive.place.connect()


async def test_a_batch_comes_again_until_it_is_finished(drive: Drive) -> None:
    await write(drive, b"[1]", b"[2]")
    first = await follow(drive)
    assert told(first) == [b"[1]", b"[2]"]
    assert await follow(drive) == first
    await finish(drive, first)
    await finish(drive, first)
    assert await follow(drive) == Followed()
    await write(drive, b"[3]")
    assert told(await follow(drive)) == [b"[3]"]


async def test_who_keeps_some_unfinished_is_given_what_lies_behind_them(drive: Drive) -> None:
    await write(drive, b"[1]", b"[2]", b"[3]")
    held = await follow(drive, max_batches=2)
    last = held.batches[-1][0]
    assert told(await follow(drive, after=last)) == [b"[3]"]
    assert told(await follow(drive, after=last)) == [b"[3]"]
    await drive.backend.finish_events(0, "archive", [last])
    assert told(await follow(drive)) == [b"[1]", b"[3]"]


async def test_groups_do_not_take_from_each_other(drive: Drive) -> None:
    await write(drive, b"[1]")
    await finish(drive, await follow(drive))
    assert told(await follow(drive, group="spans")) == [b"[1]"]


async def test_two_readers_share_and_one_takes_over_from_the_other(drive: Drive) -> None:
    await write(drive, b"[1]", b"[2]")
    first = await follow(drive, "r1", max_batches=1)
    second = await follow(drive, "r2", idle_ms=60_000)
    assert (told(first), told(second)) == ([b"[1]"], [b"[2]"])
    await finish(drive, second)
    assert await follow(drive, "r2", idle_ms=60_000) == Followed()
    assert told(await follow(drive, "r2", idle_ms=0)) == [b"[1]"]
    assert await follow(drive, "r1", idle_ms=60_000) == Followed()


async def test_what_was_trimmed_unread_is_counted_once(drive: Drive) -> None:
    await keep_two(drive)
    await write(drive, b"[0]")
    await finish(drive, await follow(drive))
    await write(drive, b"[1]", b"[2]", b"[3]", b"[4]", b"[5]")
    late = await follow(drive)
    assert (missed(late), told(late)) == (3, [])
    assert await follow(drive) == late, "it is told until it is noted"
    assert await follow(drive, "r2") == late
    behind = await follow(drive, noted=late.trimmed)
    assert (missed(behind), told(behind)) == (0, [b"[4]", b"[5]"])
    await finish(drive, behind)
    assert await follow(drive, noted=late.trimmed) == Followed(), "noted twice is noted once"
    await write(drive, b"[6]")
    following = await follow(drive)
    assert (missed(following), told(following)) == (0, [b"[6]"])
    await write(drive, b"[7]", b"[8]", b"[9]")  # 6 is trimmed while it is pending, 7 before anybody has read it
    again = await follow(drive)
    assert (again.gone, missed(again), told(again)) == ((following.batches[0][0],), 2, [])
    assert await follow(drive, "r2", idle_ms=0) == again, "also for somebody else"
    assert again.trimmed is not None
    assert (again.trimmed.after, again.trimmed.count) == (following.batches[0][0], 1)
    await finish(drive, again)
    last = await follow(drive, noted=again.trimmed)
    assert (missed(last), told(last)) == (0, [b"[8]", b"[9]"])
    assert last.batches[0][0] == again.trimmed.first


async def test_what_was_trimmed_in_the_hands_of_one_who_keeps_it_stops_nothing(drive: Drive) -> None:
    """Whoever holds batches for long (the exporter of spans) does not finish them because they are trimmed: it has read them."""
    await keep_two(drive)
    await write(drive, b"[1]")
    held = await follow(drive)
    last = last_read = held.batches[-1][0]
    await write(drive, b"[2]", b"[3]")
    for _ in range(2):
        some = await follow(drive, max_batches=1, idle_ms=0, after=last)
        assert (some.gone, some.trimmed, len(some.batches)) == ((last,), None, 1)
        last_read = some.batches[0][0]
        await finish(drive, Followed(batches=some.batches))
    assert (await follow(drive, idle_ms=0, after=last_read)).gone == (last,), "until it is finished"
    await finish(drive, held)
    assert await follow(drive, idle_ms=0, after=last_read) == Followed()


async def test_what_was_trimmed_since_is_told_for_itself(drive: Drive) -> None:
    await keep_two(drive)
    await write(drive, b"[0]")
    await finish(drive, await follow(drive))
    await write(drive, b"[1]", b"[2]", b"[3]", b"[4]")
    first = await follow(drive)
    await write(drive, b"[5]", b"[6]", b"[7]")
    second = await follow(drive, noted=first.trimmed)
    assert first.trimmed is not None
    assert second.trimmed is not None
    assert (first.trimmed.count, second.trimmed.count) == (2, 3)
    assert first.trimmed.trimmed == second.trimmed.had
    stale = await follow(drive, noted=first.trimmed)
    assert (stale, missed(stale)) == (second, 3)
    assert told(await follow(drive, noted=second.trimmed)) == [b"[6]", b"[7]"]


async def test_a_group_that_begins_late_has_missed_nothing(drive: Drive) -> None:
    await keep_two(drive)
    await write(drive, b"[1]", b"[2]", b"[3]", b"[4]", b"[5]")
    first = await follow(drive)
    assert (missed(first), told(first)) == (0, [b"[4]", b"[5]"])
    assert missed(await follow(drive)) == 0


async def test_a_stream_that_was_deleted_or_is_none_is_read_from_its_start(drive: Drive) -> None:
    await write(drive, b"[1]")
    await finish(drive, await follow(drive))
    await drive.place.delete(KEYS.events(0))
    assert await follow(drive) == Followed()
    await write(drive, b"[2]")
    assert told(await follow(drive)) == [b"[2]"]
    await drive.place.spoil(KEYS.events(0))
    assert await follow(drive) == Followed()
    await write(drive, b"[3]")
    assert told(await follow(drive)) == [b"[3]"]


async def test_a_stream_that_was_wound_back_is_read_from_its_start(drive: Drive) -> None:
    await drive.place.append(KEYS.events(0), {"b": b"[1]"}, "18446744073709551615-18446744073709551615")
    await finish(drive, await follow(drive))
    await write(drive, b"[2]")
    assert b"[2]" in told(await follow(drive))


async def test_a_reader_that_goes_leaves_nothing_but_what_it_holds(drive: Drive) -> None:
    await write(drive, b"[1]")
    held = await follow(drive)
    await drive.backend.unfollow_events(0, "archive", "r1")
    assert told(await follow(drive, "r2", idle_ms=0)) == [b"[1]"]
    await finish(drive, held)
    await drive.backend.unfollow_events(0, "archive", "r1")
    await drive.backend.unfollow_events(0, "archive", "nobody")
    assert await follow(drive, "r2") == Followed()
