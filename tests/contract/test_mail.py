"""Mailboxes: keep, read, drop; and inspect, which reads what the ledger holds."""

import asyncio

from reach.backend.steps import Plan
from tests.contract.drive import BOX, Drive, failure, new_id, success
from tests.contract.places import KEYS


async def test_a_missing_mailbox_is_made_and_a_present_one_renewed(drive: Drive) -> None:
    assert await drive.backend.keep_mailbox("fresh", [0, 1]) is True
    await drive.place.pass_time(30_000)
    assert await drive.backend.keep_mailbox("fresh", [0, 1]) is False
    for partition in (0, 1):
        assert 55_000 < await drive.place.ttl_ms(KEYS.mail(partition, "fresh")) <= 60_000


async def test_the_lifetime_is_the_owners_choice(drive: Drive) -> None:
    await drive.backend.keep_mailbox("short", [0], ttl_ms=5_000)
    assert 4_000 < await drive.place.ttl_ms(KEYS.mail(0, "short")) <= 5_000


async def test_what_its_owner_has_read_is_trimmed(drive: Drive) -> None:
    for _ in range(3):
        await drive.sent(Plan("finish", answer=failure()), notice="")
    found = await drive.backend.read_mail(BOX, {0: "0"}, 0)
    assert [entry.kind for entry in found] == ["hello"] + ["receipt"] * 3
    assert await drive.backend.keep_mailbox(BOX, [0], read={0: found[2].id}) is False
    assert [entry_id for entry_id, _ in await drive.place.entries(KEYS.mail(0, BOX))] == [each.id for each in found[2:]]
    assert await drive.backend.keep_mailbox(BOX, [0], read={0: found[2].id}) is False
    assert await drive.backend.read_mail(BOX, {0: found[2].id}, 0) == found[3:]


async def test_nothing_is_trimmed_that_was_not_read(drive: Drive) -> None:
    await drive.sent(Plan("finish", answer=failure()), notice="")
    for read in (None, {}, {0: "0"}, {1: "99999999999999-0"}):
        await drive.backend.keep_mailbox(BOX, [0], read=read)
    assert len(await drive.place.entries(KEYS.mail(0, BOX))) == 2


async def test_a_mailbox_that_had_to_be_made_is_not_trimmed(drive: Drive) -> None:
    await drive.place.delete(KEYS.mail(0, BOX))
    assert await drive.backend.keep_mailbox(BOX, [0], read={0: "99999999999999-0"}) is True
    assert len(await drive.place.entries(KEYS.mail(0, BOX))) == 1


async def test_one_missing_part_is_told(drive: Drive) -> None:
    await drive.backend.keep_mailbox("fresh", [0])
    assert await drive.backend.keep_mailbox("fresh", [0, 1]) is True
    assert await drive.backend.keep_mailbox("fresh", [0, 1]) is False


async def test_a_mailbox_that_is_not_renewed_goes(drive: Drive) -> None:
    await drive.place.pass_time(60_001)
    assert await drive.place.type_of(KEYS.mail(0, BOX)) == "none"


async def test_a_key_of_the_wrong_type_becomes_a_mailbox(drive: Drive) -> None:
    await drive.place.spoil(KEYS.mail(0, BOX))
    assert await drive.backend.keep_mailbox(BOX, [0]) is True
    await drive.sent(Plan("finish", answer=failure()))
    assert (await drive.receipt())["code"] == "handler.rejected"


async def test_reading_a_key_of_the_wrong_type_gives_nothing(drive: Drive) -> None:
    await drive.place.spoil(KEYS.mail(0, BOX))
    assert await drive.backend.read_mail(BOX, {0: "0"}, 0) == []
    await drive.place.delete(KEYS.mail(0, BOX))


async def test_mail_comes_in_order_and_once_behind_the_cursor(drive: Drive) -> None:
    taken = await drive.running()
    await drive.settle(taken, success())
    found = await drive.backend.read_mail(BOX, {0: "0"}, 0)
    assert [entry.kind for entry in found] == ["hello", "notice", "receipt"]
    assert {entry.partition for entry in found} == {0}
    assert await drive.backend.read_mail(BOX, {0: found[-1].id}, 0) == []
    assert [entry.kind for entry in await drive.backend.read_mail(BOX, {0: found[1].id}, 0)] == ["receipt"]


async def test_max_entries_bounds_a_read(drive: Drive) -> None:
    await drive.settle(await drive.running(), success())
    assert len(await drive.backend.read_mail(BOX, {0: "0"}, 0, max_entries=2)) == 2


async def test_several_partitions_are_read_at_once(drive: Drive) -> None:
    await drive.backend.keep_mailbox("wide", [0, 5])
    found = await drive.backend.read_mail("wide", {0: "0", 5: "0"}, 0)
    assert [(entry.partition, entry.kind) for entry in found] == [(0, "hello"), (5, "hello")]


async def test_waiting_ends_with_the_time_and_with_the_mail(drive: Drive) -> None:
    await drive.mail()
    (last,) = await drive.backend.read_mail(BOX, {0: "0"}, 0)
    assert await drive.backend.read_mail(BOX, {0: last.id}, 20) == []
    async with asyncio.TaskGroup() as group:
        reading = group.create_task(drive.backend.read_mail(BOX, {0: last.id}, 5_000))
        await asyncio.sleep(0)
        await drive.sent(Plan("finish", answer=failure()), notice="")
    assert [entry.kind for entry in reading.result()] == ["receipt"]


async def test_a_reader_of_a_missing_mailbox_sees_it_when_it_is_made(drive: Drive) -> None:
    async with asyncio.TaskGroup() as group:
        reading = group.create_task(drive.backend.read_mail("later", {0: "0"}, 5_000))
        await asyncio.sleep(0)
        await drive.backend.keep_mailbox("later", [0])
    assert [entry.kind for entry in reading.result()] == ["hello"]


async def test_a_dropped_mailbox_is_gone(drive: Drive) -> None:
    await drive.backend.drop_mailbox(BOX)
    await drive.backend.drop_mailbox(BOX)
    assert await drive.place.type_of(KEYS.mail(0, BOX)) == "none"


async def test_foreign_entries_are_passed_over(drive: Drive) -> None:
    await drive.place.append(KEYS.mail(0, BOX), {"junk": b"\xff"})
    assert [entry.kind for entry in await drive.backend.read_mail(BOX, {0: "0"}, 0)] == ["hello", "hello"]


# ---------------------------------------------------------------- inspect


async def test_inspect_of_nothing_is_none(drive: Drive) -> None:
    assert await drive.backend.inspect(0, new_id()) is None
    assert await drive.backend.inspect(0, new_id(), 0, envelope=True) is None


async def test_inspect_shows_open_and_ended_legs(drive: Drive) -> None:
    msg_id = await drive.sent(
        Plan("deliver", "a1"), Plan("finish", "a2", answer=failure("agent.lost")), scope="all", reply_to=""
    )
    record = await drive.backend.inspect(0, msg_id)
    assert record is not None
    assert set(record.legs) == {0, 1}
    assert set(record.receipts) == {1}
    assert b'"stored":true' in record.receipts[1]
    assert record.msg_id == msg_id
    assert abs(record.now_ms - await drive.backend.now_ms()) < 2_000


async def test_inspect_of_one_leg_shows_that_leg(drive: Drive) -> None:
    msg_id = await drive.sent(Plan("deliver", "a1"), Plan("finish", "a2", answer=failure()), scope="all")
    record = await drive.backend.inspect(0, msg_id, 1)
    assert record is not None
    assert set(record.legs) == {1}
    missing = await drive.backend.inspect(0, msg_id, 9)
    assert missing is not None
    assert missing.legs == {}


async def test_inspect_gives_the_bytes_only_when_asked(drive: Drive) -> None:
    msg_id = await drive.sent()
    record = await drive.backend.inspect(0, msg_id)
    assert record is not None
    assert record.envelope == b""
    assert await drive.bytes_of(msg_id) != b""


async def test_inspect_of_a_key_of_the_wrong_type_is_none(drive: Drive) -> None:
    key = KEYS.message(0, msg_id := new_id())
    await drive.place.spoil(key)
    assert await drive.backend.inspect(0, msg_id) is None
    await drive.place.delete(key)
