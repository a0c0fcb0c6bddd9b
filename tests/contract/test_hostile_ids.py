"""Entry ids of the far future, the last possible one among them: whoever meets them winds the stream back, and nothing in it is lost."""

import pytest

from reach.backend.keys import GROUP_AGENT, GROUP_ROUTERS
from reach.backend.steps import Plan
from reach.envelope.ledger import LegState
from tests.contract.drive import AGENT, BOX, ENVELOPE, TO_AGENT, Drive, retryable, success
from tests.contract.places import KEYS

INBOX = KEYS.inbox(0, AGENT, "normal")
INGRESS = KEYS.ingress(0, "normal")
LAST_ID = "18446744073709551615-18446744073709551615"
YEAR_5138 = "99999999999999-0"
DAY_MS = 86_400_000
IDS = pytest.mark.parametrize("entry_id", [YEAR_5138, LAST_ID])


async def is_sane(drive: Drive, entry_id: str) -> bool:
    return int(entry_id.partition("-")[0]) < await drive.backend.now_ms() + 60_000


@pytest.mark.parametrize("entry_id", ["99999999999999-0", "99999999999999-7"])
async def test_an_entry_id_of_the_year_5138_is_accepted_now_and_the_stream_healed(drive: Drive, entry_id: str) -> None:
    now_ms = await drive.backend.now_ms()
    await drive.backend.open_doors(0)
    await drive.place.append(INGRESS, {"e": ENVELOPE}, entry_id)
    (entry,) = await drive.work()
    assert entry.id == entry_id
    msg_id, result = await drive.send(entry=entry)
    assert result.verdict == "done"
    assert 0 <= (await drive.head(msg_id)).accepted_at_ms - now_ms < 5_000
    fresh = await drive.entry()
    assert int(fresh.id.split("-")[0]) < now_ms + 60_000
    _, result = await drive.send(entry=fresh)
    assert result.verdict == "done"


async def test_an_inbox_entry_of_the_year_5138_is_dropped_and_the_lane_goes_on(drive: Drive) -> None:
    await drive.place.append(INBOX, {"junk": b"1"}, "99999999999999-0")
    result = await drive.backend.take(0, AGENT, "i1", 10)
    assert result.taken == ()
    msg_id = await drive.sent()
    assert await drive.backend.ring(AGENT, {0: result.cursors}, 0) is True
    assert (await drive.taken()).msg_id == msg_id


async def test_a_sender_is_let_in_again_and_what_lies_there_is_served(drive: Drive) -> None:
    for number in range(3):
        await drive.place.append(INGRESS, {"e": b"%d" % number})
    (first, *_) = await drive.backend.read_work("router-1", [0], 1, 0)
    await drive.place.append(INGRESS, {"e": b"last"}, LAST_ID)
    assert await is_sane(drive, await drive.backend.submit(0, "normal", ENVELOPE))
    entries = await drive.backend.read_work("router-2", [0], 10, 0)
    assert sorted(entry.fields[b"e"] for entry in entries) == sorted([b"1", b"2", b"last", ENVELOPE])
    (pending,) = [row for row in await drive.place.pending(INGRESS, GROUP_ROUTERS) if row.consumer == "router-1"]
    assert pending.id == first.id


@IDS
async def test_every_door_is_opened_again_also_for_those_who_write_by_hand(drive: Drive, entry_id: str) -> None:
    doors = KEYS.groups(0)
    await drive.backend.open_doors(0)
    assert await drive.backend.open_doors(0) == 0
    for key in doors:
        await drive.place.append(key, {"x": b"1"}, entry_id)
        await drive.place.remove(key, entry_id)
    assert await drive.backend.open_doors(0) == len(doors)
    for key in doors:
        assert await is_sane(drive, await drive.place.append(key, {"x": b"2"}))
    assert await drive.backend.open_doors(0) == 0


async def test_lost_and_spoilt_doors_are_made(drive: Drive) -> None:
    await drive.backend.open_doors(0)
    await drive.place.delete(INGRESS)
    await drive.place.drop_group(KEYS.again(0), GROUP_ROUTERS)
    await drive.place.spoil(KEYS.control())
    assert await drive.backend.open_doors(0) == 1  # what is just missing may be new
    for key, group in KEYS.groups(0).items():
        assert await drive.place.read_plain(key, group, "somebody") == []


async def test_control_at_its_last_id_takes_entries(drive: Drive) -> None:
    await drive.place.append(KEYS.control(), {"c": b"last"}, LAST_ID)
    entry_id = await drive.backend.send_control(b"{}")
    assert {data for _, data in await drive.backend.read_control("r1", 0)} == {b"last", b"{}"}
    assert await is_sane(drive, entry_id)


async def test_the_internal_door_at_its_last_id_takes_what_comes_back(drive: Drive) -> None:
    taken = await drive.running()
    await drive.place.append(KEYS.again(0), {"m": b"x", "l": b"0", "h": b"0"}, LAST_ID)
    assert await drive.settle(taken, retryable()) == "done"
    assert (await drive.leg(taken.msg_id)).state is LegState.RETURNED
    (asked,) = [entry for entry in await drive.work("again") if entry.fields[b"m"] != b"x"]
    assert (await drive.decide(asked, TO_AGENT)).verdict == "done"
    assert (await drive.taken()).attempt == 2


async def test_dead_letters_at_their_last_id_are_kept_with_the_next(drive: Drive) -> None:
    for number in range(120):
        await drive.place.append(KEYS.dead(0), {"m": b"%d" % number})
    await drive.place.append(KEYS.dead(0), {"m": b"last"}, LAST_ID)
    msg_id, result = await drive.send(Plan("finish", answer=retryable("overloaded"), dead=True))
    assert result.verdict == "done", result.error
    kept = [fields[b"m"].decode() for _, fields in await drive.backend.dead_letters(0, max_entries=1_000)]
    assert kept == [*map(str, range(120)), "last", msg_id]


@IDS
async def test_an_id_of_the_future_in_the_events_is_the_age_of_nothing(drive: Drive, entry_id: str) -> None:
    await drive.backend.record(0, b"[1]")
    await drive.place.append(KEYS.dead(0), {"m": b"x"})
    await drive.place.append(KEYS.events(0), {"b": b"[2]"}, entry_id)
    await drive.backend.record(0, b"[3]")
    other = await drive.place.connect()
    await other.record(0, b"[4]")
    events = await drive.backend.read_events(0, "0", 0)
    assert sorted(batch for _, batch in events) == [b"[1]", b"[2]", b"[3]", b"[4]"]
    assert len(await drive.backend.dead_letters(0)) == 1


async def test_who_reads_the_events_from_the_last_id_on_is_not_left_behind(drive: Drive) -> None:
    await drive.place.append(KEYS.events(0), {"b": b"[1]"}, LAST_ID)
    await drive.backend.record(0, b"[2]")
    assert b"[2]" in {batch for _, batch in await drive.backend.read_events(0, LAST_ID, 0)}


async def test_a_mailbox_at_its_last_id_does_not_stop_the_work(drive: Drive) -> None:
    taken = await drive.running()
    await drive.place.append(KEYS.mail(0, BOX), {"junk": b"x"}, LAST_ID)
    assert await drive.settle(taken, success()) == "done"
    assert (await drive.leg(taken.msg_id)).state is LegState.DONE


@IDS
async def test_a_mailbox_with_ids_of_the_future_is_made_anew_by_its_owner(drive: Drive, entry_id: str) -> None:
    await drive.backend.keep_mailbox(BOX, [0])
    assert await drive.backend.keep_mailbox(BOX, [0]) is False
    await drive.place.append(KEYS.mail(0, BOX), {"junk": b"x"}, entry_id)
    await drive.place.remove(KEYS.mail(0, BOX), entry_id)
    assert await drive.backend.keep_mailbox(BOX, [0], read={0: entry_id}) is True
    assert await drive.backend.keep_mailbox(BOX, [0]) is False
    assert await is_sane(drive, await drive.place.append(KEYS.mail(0, BOX), {"r": b"{}"}))


async def test_an_inbox_at_its_last_id_takes_work_and_takes_none_away(drive: Drive) -> None:
    running = await drive.running()
    waiting = await drive.sent()
    await drive.place.append(INBOX, {"junk": b"x"}, LAST_ID)
    fresh = await drive.sent()
    assert await drive.backend.renew(0, AGENT, "i1", {"normal": [running.hand]}) == {running.hand}
    assert [taken.msg_id for taken in await drive.take()] == [waiting, fresh]
    assert await drive.settle(running, success()) == "done"


@IDS
async def test_an_idle_inbox_is_opened_again_also_for_those_who_look_by_hand(drive: Drive, entry_id: str) -> None:
    running = await drive.running()
    await drive.place.append(INBOX, {"junk": b"x"}, entry_id)
    await drive.place.remove(INBOX, entry_id)
    assert await drive.backend.open_inbox(0, AGENT) is True
    assert await drive.backend.open_inbox(0, AGENT) is False
    assert await is_sane(drive, await drive.place.append(INBOX, {"junk": b"y"}))
    (row,) = await drive.place.pending(INBOX, GROUP_AGENT)
    assert (row.id, row.consumer) == (running.hand, "i1")


async def test_a_hand_of_the_future_keeps_its_id(drive: Drive) -> None:
    """Work that was handed over while the ids ran ahead is known by them: the lane waits until it is done."""
    await drive.place.append(INBOX, {"junk": b"x"}, YEAR_5138)
    msg_id = await drive.sent()
    assert await drive.backend.open_inbox(0, AGENT) is False
    taken = await drive.taken()
    assert taken.msg_id == msg_id
    assert await drive.backend.open_inbox(0, AGENT) is False
    assert await drive.settle(taken, success()) == "done"
    assert await drive.backend.open_inbox(0, AGENT) is True


async def test_an_inbox_that_takes_no_more_ids_ends_the_leg_and_not_the_step(drive: Drive) -> None:
    """A hand of the future lies in it, and behind it there is no id: it cannot be wound back before that hand is done."""
    await drive.place.append(INBOX, {"junk": b"x"}, YEAR_5138)
    first = await drive.sent()
    await drive.place.append(INBOX, {"junk": b"x"}, LAST_ID)
    await drive.mail()
    _, result = await drive.send()
    assert result.verdict == "done", result.error
    assert (await drive.receipt())["code"] == "agent.lost"
    assert (await drive.taken()).msg_id == first
