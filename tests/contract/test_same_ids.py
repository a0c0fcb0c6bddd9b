"""Ids are unique within a stream only: what one script writes into several lanes or inboxes has the same ids everywhere."""

import pytest

from reach.backend.keys import GROUP_AGENT
from reach.backend.steps import Again, Plan, Send
from reach.envelope.ledger import LegState
from tests.contract.drive import AGENT, BOX, ENVELOPE, TO_AGENT, Drive, head_of, new_id, retryable, success
from tests.contract.places import KEYS


async def twins(drive: Drive, *agents: str, lanes: tuple[str, str] = ("normal", "normal")) -> list[str]:
    """Two messages that one script delivers in one millisecond: their hands are the same text."""
    for _ in range(100):
        msg_ids = [new_id(), new_id()]
        sends = [
            Send(await drive.entry(), msg_id, head_of(msg_id, lane=lane), (Plan("deliver", agent),), ENVELOPE, BOX)
            for msg_id, agent, lane in zip(msg_ids, agents, lanes, strict=True)
        ]
        results = await drive.backend.route(0, sends)
        if results[0].hands == results[1].hands:
            return msg_ids
        for msg_id in msg_ids:  # a millisecond began between the two
            await drive.backend.cancel(0, msg_id, "sender-1", 1, 60_000)
    raise AssertionError("no two hands of one millisecond in 100 tries")


async def test_a_late_answer_takes_nobody_elses_entry_in_another_lane(drive: Drive) -> None:
    lost, other = await twins(drive, AGENT, AGENT, lanes=("high", "normal"))
    (taken,) = await drive.take(free=1)
    assert taken.msg_id == lost
    await drive.place.delete(KEYS.message(0, lost))
    assert await drive.settle(taken, success()) == "unknown"
    assert await drive.inbox(lane="high") == []
    assert (await drive.taken()).msg_id == other


async def test_a_stale_answer_takes_nobody_elses_entry(drive: Drive) -> None:
    moved, other = await twins(drive, AGENT, AGENT, lanes=("high", "normal"))
    (first,) = await drive.take(free=1)
    assert first.msg_id == moved
    await drive.settle(first, retryable())
    assert (await drive.decide(await drive.asked_again(), TO_AGENT)).verdict == "done"
    assert await drive.settle(first, success()) == "stale"
    assert {each.msg_id for each in await drive.take()} == {moved, other}


async def test_a_leg_that_ends_without_an_entry_takes_nobody_elses(drive: Drive) -> None:
    await drive.backend.open_inbox(0, "a2")
    ending, other = await twins(drive, AGENT, "a2")
    taken = await drive.taken()
    await drive.settle(taken, retryable())
    entry = await drive.asked_again()
    plan = Plan("finish", agent="a2", answer=retryable())
    result = await drive.route(Again(entry, ending, 0, taken.hand, LegState.RETURNED, 1, plan))
    assert result.verdict == "done"
    (kept,) = await drive.take(agent="a2")
    assert kept.msg_id == other


async def test_what_is_held_in_one_lane_hides_nothing_in_another(drive: Drive) -> None:
    await twins(drive, AGENT, AGENT, lanes=("high", "normal"))
    kept, lost = await drive.take()
    assert (kept.lane, lost.lane, kept.hand == lost.hand) == ("high", "normal", True)
    result = await drive.backend.take(0, AGENT, "i1", 10, [(kept.lane, kept.hand)])
    assert [(each.lane, each.msg_id) for each in result.taken] == [("normal", lost.msg_id)]


@pytest.mark.parametrize("runs", [False, True])
async def test_the_hand_in_another_inbox_or_lane_is_nobodys(drive: Drive, runs: bool) -> None:
    """Where the record does not place it there, an entry is not the leg's, whatever its id: nobody runs it, and it goes."""
    await drive.backend.open_inbox(0, "a2")
    msg_id = await drive.sent(Plan("deliver", "a2"))
    taken = await drive.take(agent="a2") if runs else []
    leg = await drive.leg(msg_id)
    for agent, lane in ((AGENT, "normal"), ("a2", "low")):
        fields = {"m": msg_id.encode(), "l": b"0", "e": ENVELOPE}
        await drive.place.append(KEYS.inbox(0, agent, lane), fields, leg.hand)
    assert await drive.take("i2") == []
    assert [each.lane for each in await drive.take("i2", agent="a2")] == ([] if runs else ["normal"])
    assert await drive.inbox() == await drive.inbox("a2", "low") == []
    assert [await drive.settle_as("a2", each, success()) for each in taken] == ["done"] * len(taken)


@pytest.mark.parametrize("lost", [False, True])
async def test_closing_gives_back_nothing_for_the_hand_in_another_inbox(drive: Drive, lost: bool) -> None:
    await drive.backend.open_inbox(0, "a2")
    msg_id = await drive.sent(Plan("deliver", "a2"))
    before = await drive.leg(msg_id)
    inbox = KEYS.inbox(0, AGENT, "normal")
    await drive.place.append(inbox, {"m": msg_id.encode(), "l": b"0", "e": ENVELOPE}, before.hand)
    if lost:
        await drive.place.read_plain(inbox, GROUP_AGENT, "dead")
        await drive.place.pass_time(15_001)
        before = await drive.leg(msg_id)
    assert await drive.backend.close_inbox(0, AGENT) is True
    assert await drive.work("again") == []
    assert await drive.leg(msg_id) == before
