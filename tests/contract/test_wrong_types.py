"""A key of the table that holds something else: every path heals by itself, and nothing else is harmed."""

import pytest

from reach.backend.keys import LANES
from reach.backend.steps import Plan
from tests.contract.drive import AGENT, ENVELOPE, Drive, new_id, retryable, success
from tests.contract.places import KEYS

INBOX = KEYS.inbox(0, AGENT, "normal")
CARD, READY = b'{"agent_id":"a1"}', b'{"state":"ready"}'


async def message_goes_through(drive: Drive) -> None:
    await drive.keep_box()
    await drive.mail()
    await drive.backend.open_inbox(0, AGENT)
    taken = await drive.running()
    assert taken.envelope == ENVELOPE
    assert await drive.settle(taken, success()) == "done"
    assert (await drive.receipt())["code"] == "ok"


@pytest.mark.parametrize("stream", KEYS.work(0))
async def test_a_door_is_made_anew_by_its_readers(drive: Drive, stream: str) -> None:
    await drive.work()
    for heal in ("read", "own", "claim"):
        await drive.place.spoil(stream)
        if heal == "read":
            assert await drive.work() == []
        elif heal == "own":
            assert await drive.backend.own_work("router-1", 0) == []
        else:
            assert await drive.backend.claim_work("router-1", 0, 1_000) == []
        assert await drive.place.type_of(stream) == "stream"
    await message_goes_through(drive)


@pytest.mark.parametrize("lane", LANES)
async def test_a_sender_makes_an_ingress_anew(drive: Drive, lane: str) -> None:
    await drive.place.spoil(KEYS.ingress(0, lane))
    await drive.backend.submit(0, lane, ENVELOPE)
    assert [entry.fields[b"e"] for entry in await drive.work()] == [ENVELOPE]


async def test_the_internal_door_is_made_anew_by_whoever_needs_it(drive: Drive) -> None:
    taken = await drive.running()
    await drive.place.spoil(KEYS.again(0))
    assert await drive.settle(taken, retryable()) == "done"
    assert (await drive.decide(await drive.asked_again(), Plan("deliver", AGENT))).verdict == "done"
    assert (await drive.taken()).attempt == 2


@pytest.mark.parametrize("step", ["route", "take", "settle", "due", "cancel"])
async def test_the_set_of_moments_is_made_anew(drive: Drive, step: str) -> None:
    taken = await drive.running()
    other = await drive.sent()
    await drive.place.spoil(KEYS.due(0))
    if step == "route":
        await drive.sent()
    elif step == "take":
        await drive.take()
    elif step == "settle":
        assert await drive.settle(taken, retryable()) == "done"
    elif step == "due":
        assert (await drive.backend.due(0)).events == ()
    else:
        assert (await drive.backend.cancel(0, other, "sender-1", 1, 0)).what == "cancelled"
    await drive.sent()
    assert await drive.place.type_of(KEYS.due(0)) == "zset"
    assert (await drive.backend.due(0)).next_at_ms > 0


async def test_the_tick_is_made_anew(drive: Drive) -> None:
    await drive.place.spoil(KEYS.tick(0))
    report = await drive.backend.due(0)
    assert report.grace_until_ms == report.now_ms + 15_000
    assert await drive.place.type_of(KEYS.tick(0)) == "hash"


async def test_env_bytes_of_the_wrong_type_are_written_over(drive: Drive) -> None:
    taken = await drive.running()
    await drive.place.spoil(KEYS.envelope(0, taken.msg_id))
    assert await drive.settle(taken, retryable()) == "done"
    assert await drive.bytes_of(taken.msg_id) == ENVELOPE


async def test_a_new_message_that_waits_writes_over_wrong_bytes(drive: Drive) -> None:
    msg_id = new_id()
    await drive.place.spoil(KEYS.envelope(0, msg_id))
    await drive.sent(Plan("delay", wait_ms=500), msg_id=msg_id)
    assert await drive.bytes_of(msg_id) == ENVELOPE


async def test_bytes_of_a_forgotten_message_are_not_those_of_a_new_one(drive: Drive) -> None:
    msg_id = await drive.sent(Plan("delay", wait_ms=500), envelope=b'"old"')
    await drive.place.delete(KEYS.message(0, msg_id))
    await drive.sent(Plan("delay", wait_ms=500), msg_id=msg_id)
    assert await drive.bytes_of(msg_id) == ENVELOPE


async def test_the_dead_stream_is_made_anew(drive: Drive) -> None:
    await drive.place.spoil(KEYS.dead(0))
    assert await drive.backend.dead_letters(0) == []
    await drive.place.spoil(KEYS.dead(0))
    await drive.sent(Plan("finish", answer=retryable(), dead=True))
    assert len(await drive.backend.dead_letters(0)) == 1


async def test_the_events_are_made_anew(drive: Drive) -> None:
    await drive.place.spoil(KEYS.events(0))
    assert await drive.backend.read_events(0, "0", 0) == []
    await drive.place.spoil(KEYS.events(0))
    await drive.backend.record(0, b"[]")
    assert len(await drive.backend.read_events(0, "0", 0)) == 1


@pytest.mark.parametrize("lane", LANES)
async def test_an_inbox_is_made_anew_when_it_is_opened(drive: Drive, lane: str) -> None:
    await drive.place.spoil(KEYS.inbox(0, AGENT, lane))
    await message_goes_through(drive)


async def test_due_goes_on_when_an_inbox_is_of_the_wrong_type(drive: Drive) -> None:
    await drive.past_grace()
    taken = await drive.running()
    await drive.place.spoil(INBOX)
    await drive.live(17_500)
    assert (await drive.receipt())["code"] == "backend.unavailable"
    assert taken.msg_id not in await drive.place.due()
    await message_goes_through(drive)


async def test_control_is_made_anew(drive: Drive) -> None:
    await drive.place.spoil(KEYS.control())
    assert await drive.backend.read_control("r1", 0) == []
    await drive.place.spoil(KEYS.control())
    entry_id = await drive.backend.send_control(b"{}")
    assert await drive.backend.read_control("r1", 0) == [(entry_id, b"{}")]
    await drive.backend.finish_control(entry_id)


@pytest.mark.parametrize("key", [KEYS.agents(), KEYS.beats(), KEYS.load(), KEYS.changes(), KEYS.meta(), KEYS.types()])
async def test_registering_makes_the_registry_anew(drive: Drive, key: str) -> None:
    await drive.place.spoil(key)
    assert (await drive.backend.register("a1", CARD, "i1", READY, None, ["request"])).ok
    assert (await drive.backend.beat("a1", "i1", READY)).known
    snapshot = await drive.backend.snapshot()
    assert (set(snapshot.agents), snapshot.types) == ({"a1"}, frozenset({"request"}))
    assert len((await drive.backend.last_beats(0))[1]) == 1


@pytest.mark.parametrize(
    "key", [KEYS.agents(), KEYS.beats(), KEYS.load(), KEYS.changes(), KEYS.meta(), KEYS.types(), KEYS.routes()]
)
async def test_reading_the_registry_goes_on(drive: Drive, key: str) -> None:
    await drive.backend.register("a1", CARD, "i1", READY, None)
    await drive.place.spoil(key)
    await drive.backend.snapshot()
    await drive.backend.registration("a1")
    await drive.backend.last_beats(0)
    await drive.backend.overdue_beats(await drive.backend.now_ms())
    await drive.backend.changes("0-0", 0)
    await drive.backend.set_meta("routes", "r", b"{}")
    assert (await drive.backend.snapshot()).routes == {"r": b"{}"}
    stored, _ = await drive.backend.registration("a1")
    assert (await drive.backend.register("a1", CARD, "i1", READY, stored)).ok


async def test_rules_of_the_wrong_type_are_told_and_only_a_new_rule_replaces_them(drive: Drive) -> None:
    """Freed by reading, they would allow what they may have forbidden."""
    await drive.backend.set_meta("rules", "one", b"{}")
    await drive.place.delete(KEYS.rules())
    await drive.place.spoil(KEYS.rules())
    for _ in range(2):
        assert (await drive.backend.snapshot()).rules is None
    await drive.backend.set_meta("rules", "two", b"{}")
    assert (await drive.backend.snapshot()).rules == {"two": b"{}"}


async def test_a_beat_over_wrong_types_is_a_beat(drive: Drive) -> None:
    await drive.backend.register("a1", CARD, "i1", READY, None)
    for key in (KEYS.beats(), KEYS.load(), KEYS.changes()):
        await drive.place.spoil(key)
    assert (await drive.backend.beat("a1", "i1", READY)).known
    assert [pulse.beat for pulse in (await drive.backend.last_beats(0))[1]] == [READY]
    assert await drive.backend.leave("a1", "i1") is True


async def test_a_lease_of_the_wrong_type_is_taken(drive: Drive) -> None:
    await drive.place.spoil(KEYS.lock("reaper"))
    assert await drive.backend.lock("reaper", "w1", 2_000) is True
    assert await drive.backend.lock("reaper", "w2", 2_000) is False


async def test_opening_over_wrong_settings(drive: Drive) -> None:
    await drive.place.spoil(KEYS.meta())
    other = await drive.place.connect()
    assert other.partitions == 1
