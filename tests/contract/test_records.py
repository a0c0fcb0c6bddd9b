"""Events and dead letters: what is kept to be read later."""

import asyncio

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
