"""control: what agents say to the registrars."""

import asyncio

from reach.backend.keys import GROUP_REGISTRARS
from tests.contract.drive import BOX, Drive
from tests.contract.places import KEYS

ENTRY = b'{"op":"register","reply_to":"box"}'


async def test_an_entry_is_read_by_one_registrar(drive: Drive) -> None:
    entry_id = await drive.backend.send_control(ENTRY)
    assert await drive.backend.read_control("r1", 0) == [(entry_id, ENTRY)]
    assert await drive.backend.read_control("r2", 0) == []


async def test_it_comes_again_until_it_is_finished(drive: Drive) -> None:
    entry_id = await drive.backend.send_control(ENTRY)
    for _ in range(2):
        assert await drive.backend.read_control("r1", 0) == [(entry_id, ENTRY)]
    await drive.backend.finish_control(entry_id)
    assert await drive.backend.read_control("r1", 0) == []
    assert await drive.place.entries(KEYS.control()) == []


async def test_the_answer_comes_before_the_end(drive: Drive) -> None:
    entry_id = await drive.backend.send_control(ENTRY)
    await drive.backend.read_control("r1", 0)
    await drive.backend.finish_control(entry_id, BOX, b'{"notice":"registered"}')
    assert await drive.notices() == [{"notice": "registered"}]
    assert await drive.place.pending(KEYS.control(), GROUP_REGISTRARS) == []


async def test_a_missing_mailbox_does_not_hold_the_entry(drive: Drive) -> None:
    entry_id = await drive.backend.send_control(ENTRY)
    await drive.backend.read_control("r1", 0)
    await drive.backend.finish_control(entry_id, "nobody", b"{}")
    await drive.place.spoil(KEYS.mail(0, BOX))
    await drive.backend.finish_control(entry_id, BOX, b"{}")
    await drive.place.delete(KEYS.mail(0, BOX))
    assert await drive.backend.read_control("r1", 0) == []
    assert await drive.place.type_of(KEYS.mail(0, "nobody")) == "none"


async def test_what_a_dead_registrar_held_is_taken_over(drive: Drive) -> None:
    entry_id = await drive.backend.send_control(ENTRY)
    await drive.backend.read_control("r1", 0)
    await drive.place.pass_time(5_001)
    assert await drive.backend.read_control("r2", 0) == [(entry_id, ENTRY)]
    assert await drive.backend.read_control("r1", 0) == []


async def test_one_that_is_never_finished_does_not_hold_up_the_others(drive: Drive) -> None:
    poison = await drive.backend.send_control(b"{}")
    await drive.backend.read_control("r1", 0)
    fresh = await drive.backend.send_control(ENTRY)
    assert {entry_id for entry_id, _ in await drive.backend.read_control("r1", 0)} == {poison, fresh}


async def test_an_entry_wakes_a_waiting_registrar(drive: Drive) -> None:
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(drive.backend.read_control("r1", 5_000))
        await asyncio.sleep(0)
        entry_id = await drive.backend.send_control(ENTRY)
    assert waiting.result() == [(entry_id, ENTRY)]
    await drive.backend.finish_control(entry_id)
    assert await drive.backend.read_control("r1", 20) == []


async def test_an_entry_without_c_is_given_empty(drive: Drive) -> None:
    entry_id = await drive.place.append(KEYS.control(), {"junk": b"\xff"})
    assert await drive.backend.read_control("r1", 0) == [(entry_id, b"")]
    await drive.backend.finish_control(entry_id)


async def test_a_lost_group_comes_back(drive: Drive) -> None:
    await drive.backend.read_control("r1", 0)
    await drive.place.drop_group(KEYS.control(), GROUP_REGISTRARS)
    entry_id = await drive.backend.send_control(ENTRY)
    assert await drive.backend.read_control("r1", 0) == [(entry_id, ENTRY)]
    await drive.backend.finish_control(entry_id)
