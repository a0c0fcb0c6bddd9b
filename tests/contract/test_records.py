"""Events and dead letters: what is kept to be read later."""

import asyncio

import pytest

from reach.backend.steps import Plan, Refuse
from tests.contract.drive import Drive, retryable
from tests.contract.places import KEYS


async def test_a_batch_of_events_is_kept_byte_for_byte(drive: Drive) -> None:
    await drive.backend.record(0, b'[{"point":"a"}]')
    await drive.backend.record(0, b"[2]")
    first, second = await drive.backend.read_events(0, "0", 0)
    assert (first[1], second[1]) == (b'[{"point":"a"}]', b"[2]")
    assert await drive.backend.read_events(0, first[0], 0) == [second]
    assert await drive.backend.read_events(0, second[0], 0) == []
    assert await drive.backend.read_events(0, second[0], 20) == []


async def test_reading_is_bounded(drive: Drive) -> None:
    for number in range(5):
        await drive.backend.record(0, str(number).encode())
    assert [data for _, data in await drive.backend.read_events(0, "0", 0, 2)] == [b"0", b"1"]


async def test_a_new_batch_wakes_a_waiting_reader(drive: Drive) -> None:
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(drive.backend.read_events(0, "0", 5_000))
        await asyncio.sleep(0)
        await drive.backend.record(0, b"[]")
    assert [data for _, data in waiting.result()] == [b"[]"]


async def test_the_form_is_written_down(drive: Drive) -> None:
    await drive.backend.record(0, b"[]")
    ((_, fields),) = await drive.place.entries(KEYS.events(0))
    assert fields == {b"b": b"[]", b"v": b"1"}


async def test_dead_letters_are_listed_in_pages(drive: Drive) -> None:
    for _ in range(3):
        await drive.sent(Plan("finish", answer=retryable("overloaded"), dead=True))
    first = await drive.backend.dead_letters(0, max_entries=2)
    rest = await drive.backend.dead_letters(0, after=first[-1][0])
    assert (len(first), len(rest)) == (2, 1)
    assert not {entry_id for entry_id, _ in first} & {entry_id for entry_id, _ in rest}
    assert set(rest[0][1]) == {b"m", b"e", b"r", b"h"}


async def test_there_are_none_at_first(drive: Drive) -> None:
    assert await drive.backend.dead_letters(0) == []
    assert await drive.backend.read_events(0, "0", 0) == []


async def test_a_refusal_without_dead_fields_leaves_none(drive: Drive) -> None:
    await drive.route(Refuse(await drive.entry()))
    assert await drive.backend.dead_letters(0) == []


# ---------------------------------------------------------------- what is kept of them


async def test_events_are_bounded_by_number(drive: Drive) -> None:
    await drive.backend.set_meta("meta", "max_events", b"3")
    backend = await drive.place.connect()
    for number in range(7):
        await backend.record(0, str(number).encode())
    assert [data for _, data in await backend.read_events(0, "0", 0)] == [b"4", b"5", b"6"]


async def test_dead_letters_are_bounded_by_number(drive: Drive) -> None:
    await drive.backend.set_meta("meta", "max_dead", b"2")
    drive.backend = await drive.place.connect()
    ids = [await drive.sent(Plan("finish", answer=retryable("overloaded"), dead=True)) for _ in range(4)]
    assert [fields[b"m"].decode() for _, fields in await drive.backend.dead_letters(0)] == ids[2:]


async def test_what_is_old_goes_with_the_next_record(drive: Drive) -> None:
    """Ids of 1970, and of 30 h ago: events stay a day, dead letters a week."""
    lately = await drive.backend.now_ms() - 30 * 3_600_000
    for key in (KEYS.events(0), KEYS.dead(0)):
        await drive.place.append(key, {"b": b"1970"}, "5-0")
        await drive.place.append(key, {"b": b"lately"}, f"{lately}-0")
    await drive.backend.record(0, b"[]")
    assert [data for _, data in await drive.backend.read_events(0, "0", 0)] == [b"[]"]
    assert [fields[b"b"] for _, fields in await drive.backend.dead_letters(0)] == [b"lately"]


async def test_ages_are_settings_too(drive: Drive) -> None:
    lately = await drive.backend.now_ms() - 5_000
    for name in ("events_age_ms", "dead_age_ms"):
        await drive.backend.set_meta("meta", name, b"1000")
    for key in (KEYS.events(0), KEYS.dead(0)):
        await drive.place.append(key, {"b": b"old"}, f"{lately}-0")
    await drive.backend.record(0, b"[]")
    assert [data for _, data in await drive.backend.read_events(0, "0", 0)] == [b"[]"]
    assert await drive.backend.dead_letters(0) == []


@pytest.mark.parametrize("junk", [b"", b"0", b"-1", b"nan", b"1e3", b"9" * 400])
async def test_a_setting_that_is_no_number_counts_as_absent(drive: Drive, junk: bytes) -> None:
    for name in ("max_events", "events_age_ms", "max_dead", "dead_age_ms"):
        await drive.backend.set_meta("meta", name, junk)
    drive.backend = await drive.place.connect()
    for _ in range(2):
        await drive.backend.record(0, b"[]")
        await drive.sent(Plan("finish", answer=retryable("overloaded"), dead=True))
    assert len(await drive.backend.read_events(0, "0", 0)) == len(await drive.backend.dead_letters(0)) == 2


async def test_meta_of_the_wrong_type_sets_nothing(drive: Drive) -> None:
    await drive.place.spoil(KEYS.meta())
    await drive.backend.record(0, b"[]")
    await drive.sent(Plan("finish", answer=retryable("overloaded"), dead=True))
    assert len(await drive.backend.read_events(0, "0", 0)) == len(await drive.backend.dead_letters(0)) == 1
    await drive.place.delete(KEYS.meta())


async def test_dead_letters_are_dropped_by_their_ids(drive: Drive) -> None:
    for _ in range(3):
        await drive.sent(Plan("finish", answer=retryable("overloaded"), dead=True))
    first, second, third = [entry_id for entry_id, _ in await drive.backend.dead_letters(0)]
    assert await drive.backend.drop_dead(0, [first, third, "1-1"]) == 2
    assert await drive.backend.drop_dead(0, [first, third]) == 0
    assert [entry_id for entry_id, _ in await drive.backend.dead_letters(0)] == [second]
    assert await drive.backend.drop_dead(0, []) == 0
    await drive.place.spoil(KEYS.dead(0))
    assert await drive.backend.drop_dead(0, [second]) == 0
    await drive.place.delete(KEYS.dead(0))
    assert await drive.backend.drop_dead(0, [second]) == 0
