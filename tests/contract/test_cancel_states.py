"""A cancel finds the message wherever it is, and whoever acts at the same moment: one receipt, and nothing runs afterwards."""

import asyncio

from reach.backend.hinting import Hint
from reach.backend.steps import Plan
from reach.envelope.ledger import LegState
from tests.contract.drive import AGENT, TO_AGENT, Drive, success
from tests.contract.places import KEYS

RACES = 30


async def cancel(drive: Drive, msg_id: str) -> str:
    return (await drive.backend.cancel(0, msg_id, "sender-1", 1, 0)).what


async def test_one_that_has_moved_is_taken_out_of_the_inbox_where_it_is_now(drive: Drive) -> None:
    await drive.backend.open_inbox(0, "a2")
    await drive.past_grace()
    msg_id = await drive.sent()
    await drive.live(4_000)
    moved = await drive.decide(await drive.asked_again(), Plan("move", "a2"))
    assert moved.verdict == "done"
    hand = (await drive.leg(msg_id)).hand
    assert await drive.backend.hear("a2", 0) == []
    assert await cancel(drive, msg_id) == "cancelled"
    assert await drive.backend.hear("a2", 5_000) == [Hint(0, "normal", hand)]
    assert await drive.take(agent="a2") == []
    assert (await drive.receipt())["target_agent"] == "a2"


async def test_one_that_waits_for_its_next_try_never_gets_it(drive: Drive) -> None:
    msg_id, entry = await drive.returned()
    assert (await drive.decide(entry, Plan("delay", wait_ms=2_000))).verdict == "done"
    assert await cancel(drive, msg_id) == "cancelled"
    receipt = await drive.receipt()
    assert (receipt["code"], receipt["attempts"]) == ("cancelled", 1)
    assert receipt["details"] == {"state": "waiting", "last_code": "handler.error"}
    await drive.live(20_000)
    assert await drive.work("again") == []
    assert await drive.take() == []


async def test_one_that_is_delayed_never_starts(drive: Drive) -> None:
    msg_id = await drive.sent(Plan("delay", wait_ms=60_000))
    assert await cancel(drive, msg_id) == "cancelled"
    assert (await drive.receipt())["code"] == "cancelled"
    await drive.live(70_000)
    assert await drive.work("again") == []
    assert await drive.take() == []


async def test_a_decision_that_was_made_before_it_changes_nothing(drive: Drive) -> None:
    """A router has decided where the returned message goes, and applies that afterwards."""
    msg_id, entry = await drive.returned()
    assert await cancel(drive, msg_id) == "cancelled"
    assert (await drive.route_again(entry, TO_AGENT, LegState.RETURNED, 1)).verdict == "done"
    assert await drive.inbox() == []
    assert (await drive.leg(msg_id)).state is LegState.CANCELLED


async def test_a_plain_reader_finds_its_entry_gone(drive: Drive) -> None:
    msg_id = await drive.sent()
    key = KEYS.inbox(0, AGENT, "normal")
    (entry_id,) = await drive.place.read_plain(key, "agent", "plain")
    assert await cancel(drive, msg_id) == "cancelled"
    assert await drive.place.pending(key, "agent") == []
    assert await drive.backend.renew(0, AGENT, "plain", {"normal": [entry_id]}) == set()


async def test_of_a_cancel_and_a_result_at_the_same_moment_one_counts(drive: Drive) -> None:
    other = await drive.place.connect()
    for _ in range(RACES):
        taken = await drive.running()
        cancelled, verdict = await asyncio.gather(
            other.cancel(0, taken.msg_id, "sender-1", 1, 0), drive.settle(taken, success())
        )
        assert (cancelled.what, verdict) in {("cancelled", "stale"), ("ended", "done")}
        assert len(await drive.receipts()) == 1


async def test_of_a_cancel_and_a_take_at_the_same_moment_nothing_goes_on(drive: Drive) -> None:
    other = await drive.place.connect()
    for _ in range(RACES):
        msg_id = await drive.sent()
        cancelled, taken = await asyncio.gather(other.cancel(0, msg_id, "sender-1", 1, 0), drive.take())
        assert cancelled.what == "cancelled"
        hands = [one.hand for one in taken]
        assert await drive.backend.renew(0, AGENT, "i1", {"normal": hands}) == set()
        for one in taken:
            assert await drive.settle(one, success()) == "stale"
        assert [receipt["code"] for receipt in await drive.receipts()] == ["cancelled"]


async def test_of_two_cancels_at_the_same_moment_one_counts(drive: Drive) -> None:
    other = await drive.place.connect()
    for _ in range(RACES):
        taken = await drive.running()
        found = await asyncio.gather(cancel(drive, taken.msg_id), other.cancel(0, taken.msg_id, "sender-1", 1, 0))
        assert sorted([found[0], found[1].what]) == ["cancelled", "ended"]
        assert len(await drive.receipts()) == 1
