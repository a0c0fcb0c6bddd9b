"""route: the internal door. What happened stands in the ledger; a forged or doubled reference does nothing."""

from typing import Any

import pytest

from reach.backend.steps import Plan
from reach.envelope.ledger import LegState
from tests.contract.drive import AGENT, ENVELOPE, TO_AGENT, Drive, failure, new_id, retryable, success
from tests.contract.places import KEYS


async def forged(drive: Drive, msg_id: str, leg: int, hand: str) -> None:
    fields = {"m": msg_id.encode(), "l": str(leg).encode(), "h": hand.encode()}
    await drive.place.append(KEYS.again(0), fields)


async def test_a_returned_leg_is_delivered_again_with_a_new_hand(drive: Drive) -> None:
    msg_id, entry = await drive.returned()
    before = await drive.leg(msg_id)
    result = await drive.decide(entry, TO_AGENT)
    leg = await drive.leg(msg_id)
    assert result.verdict == "done"
    assert (leg.state, leg.attempt) == (LegState.QUEUED, 1)
    assert leg.hand == result.hands[0] != before.hand
    taken = await drive.taken()
    assert (taken.attempt, taken.envelope) == (2, ENVELOPE)
    assert await drive.place.type_of(KEYS.envelope(0, msg_id)) == "none"


async def test_the_entry_is_acknowledged_and_deleted(drive: Drive) -> None:
    _, entry = await drive.returned()
    await drive.decide(entry, TO_AGENT)
    assert await drive.place.entries(entry.stream) == []
    assert await drive.backend.own_work("router-1", 0) == []


async def test_a_second_run_is_skipped(drive: Drive) -> None:
    msg_id, entry = await drive.returned()
    leg = await drive.leg(msg_id)
    await drive.decide(entry, TO_AGENT)
    again = await drive.decide(entry, TO_AGENT, state=leg.state, attempt=leg.attempt)
    assert again.verdict == "skipped"
    assert len(await drive.inbox()) == 1


async def test_what_was_acknowledged_is_not_applied_when_its_leg_asks_once_more(drive: Drive) -> None:
    """A slow router decided about the same entry: the leg is as it has seen it, and only the entry is gone."""
    msg_id, returned = await drive.returned()
    await drive.decide(returned, Plan("delay", wait_ms=1_000))
    await drive.place.pass_time(1_001)
    await drive.backend.due(0)
    entry = await drive.asked_again()
    assert (await drive.decide(entry, Plan("delay", wait_ms=1_000))).verdict == "done"
    await drive.place.pass_time(1_001)
    assert (await drive.decide(entry, TO_AGENT)).verdict == "skipped"
    assert (await drive.leg(msg_id)).state is LegState.WAITING
    assert await drive.inbox() == []


async def test_a_doubled_reference_is_silence(drive: Drive) -> None:
    msg_id, entry = await drive.returned()
    old = await drive.leg(msg_id)
    await forged(drive, msg_id, 0, old.hand)
    doubled = await drive.asked_again()
    await drive.decide(entry, TO_AGENT)
    result = await drive.decide(doubled, TO_AGENT, state=old.state, attempt=old.attempt)
    assert result.verdict == "done"
    assert result.hands in {(), ("",)}
    assert len(await drive.inbox()) == 1
    assert await drive.place.entries(KEYS.again(0)) == []


@pytest.mark.parametrize("hand", ["0", "1-1", "nonsense", ""])
async def test_a_wrong_hand_is_silence(drive: Drive, hand: str) -> None:
    msg_id, _ = await drive.returned()
    before = await drive.leg(msg_id)
    await forged(drive, msg_id, 0, hand)
    result = await drive.decide(await drive.asked_again(), TO_AGENT)
    assert result.verdict == "done"
    assert await drive.leg(msg_id) == before
    assert await drive.inbox() == []


async def test_a_leg_or_message_that_is_not_there_is_silence(drive: Drive) -> None:
    msg_id, first = await drive.returned()
    leg = await drive.leg(msg_id)
    for no, name in ((7, msg_id), (0, new_id())):
        await forged(drive, name, no, leg.hand)
        entry = await drive.asked_again()
        result = await drive.route_again(entry, TO_AGENT, LegState.RETURNED, 1)
        assert result.verdict == "done"
    assert await drive.inbox() == []
    assert (await drive.decide(first, TO_AGENT)).verdict == "done"


async def test_a_running_leg_is_left_alone(drive: Drive) -> None:
    taken = await drive.running()
    await forged(drive, taken.msg_id, 0, taken.hand)
    result = await drive.decide(await drive.asked_again(), TO_AGENT)
    assert result.verdict == "done"
    assert (await drive.leg(taken.msg_id)).state is LegState.RUNNING
    assert await drive.settle(taken, success()) == "done"


async def test_an_ended_leg_is_left_alone(drive: Drive) -> None:
    taken = await drive.running()
    await drive.settle(taken, success())
    await drive.mail()
    await forged(drive, taken.msg_id, 0, taken.hand)
    assert (await drive.decide(await drive.asked_again(), Plan("finish", answer=failure()))).verdict == "done"
    assert await drive.mail() == []


@pytest.mark.parametrize("seen", [{"attempt": 0}, {"state": LegState.WAITING}])
async def test_a_decision_for_what_is_no_longer_so_changes_nothing(drive: Drive, seen: dict[str, object]) -> None:
    msg_id, entry = await drive.returned()
    before = await drive.leg(msg_id)
    assert (await drive.decide(entry, TO_AGENT, **seen)).verdict == "changed"
    assert await drive.leg(msg_id) == before
    assert [each.id for each in await drive.backend.own_work("router-1", 0)] == [entry.id]
    assert (await drive.decide(entry, TO_AGENT)).verdict == "done"


async def test_delay_makes_it_wait_and_then_due_asks_again(drive: Drive) -> None:
    msg_id, entry = await drive.returned()
    await drive.decide(entry, Plan("delay", wait_ms=2_000))
    assert (await drive.leg(msg_id)).state is LegState.WAITING
    assert await drive.bytes_of(msg_id) == ENVELOPE
    await drive.backend.due(0)
    assert await drive.work("again") == []
    await drive.place.pass_time(2_001)
    report = await drive.backend.due(0)
    assert [event.what for event in report.events] == ["again"]
    assert (await drive.decide(await drive.asked_again(), TO_AGENT)).verdict == "done"
    assert (await drive.taken()).attempt == 2


async def test_a_waiting_leg_does_not_go_before_its_time(drive: Drive) -> None:
    msg_id, entry = await drive.returned()
    await drive.decide(entry, Plan("delay", wait_ms=2_000))
    leg = await drive.leg(msg_id)
    await forged(drive, msg_id, 0, leg.hand)
    assert (await drive.decide(await drive.asked_again(), TO_AGENT)).verdict == "done"
    assert (await drive.leg(msg_id)).state is LegState.WAITING
    assert await drive.inbox() == []


async def test_a_leg_never_handed_over_has_the_hand_zero(drive: Drive) -> None:
    msg_id = await drive.sent(Plan("delay", wait_ms=1_000))
    await drive.place.pass_time(1_001)
    await drive.backend.due(0)
    entry = await drive.asked_again()
    assert entry.fields[b"h"] == b"0"
    assert (await drive.decide(entry, TO_AGENT)).verdict == "done"
    taken = await drive.taken()
    assert (taken.msg_id, taken.attempt, taken.envelope) == (msg_id, 1, ENVELOPE)


async def test_finish_ends_it_with_the_attempts_that_ran(drive: Drive) -> None:
    msg_id, entry = await drive.returned()
    await drive.decide(entry, Plan("finish", answer=retryable("handler.error", '{"why":"out"}'), dead=True))
    receipt = await drive.receipt()
    assert (receipt["code"], receipt["attempts"], receipt["retry_count"]) == ("handler.error", 1, 0)
    assert receipt["details"]["why"] == "out"
    ((dead_id, fields),) = await drive.backend.dead_letters(0)
    assert receipt["details"]["dead_letter"] == dead_id
    assert fields[b"e"] == ENVELOPE
    assert b"handler.error" in fields[b"h"]
    assert (await drive.leg(msg_id)).state is LegState.DONE
    assert await drive.place.type_of(KEYS.envelope(0, msg_id)) == "none"


async def test_bytes_that_were_lost_end_the_leg_backend_unavailable(drive: Drive) -> None:
    msg_id, entry = await drive.returned()
    await drive.place.delete(KEYS.envelope(0, msg_id))
    assert (await drive.decide(entry, TO_AGENT)).verdict == "done"
    assert (await drive.receipt())["code"] == "backend.unavailable"
    assert await drive.inbox() == []


async def test_raised_processing_time_is_kept(drive: Drive) -> None:
    msg_id, entry = await drive.returned()
    await drive.decide(entry, TO_AGENT, processing_ms=60_000)
    assert (await drive.head(msg_id)).processing_ms == 60_000
    assert (await drive.taken()).processing_ms == 60_000


# ---------------------------------------------------------------- move and stay


async def overdue_network(drive: Drive, **options: Any) -> str:
    """A queued message that nobody has picked up, and for which due has asked."""
    await drive.past_grace()
    msg_id = await drive.sent(**options)
    await drive.live(4_000)
    return msg_id


async def test_a_queued_leg_moves_to_another_agent(drive: Drive) -> None:
    await drive.backend.open_inbox(0, "a2")
    msg_id = await overdue_network(drive)
    result = await drive.decide(await drive.asked_again(), Plan("move", "a2"))
    assert result.verdict == "done"
    assert await drive.inbox() == []
    ((hand, _),) = await drive.inbox("a2")
    leg = await drive.leg(msg_id)
    assert (leg.agent, leg.hand, leg.moves, leg.attempt) == ("a2", hand, 1, 0)
    (taken,) = await drive.take(agent="a2")
    assert (taken.attempt, taken.envelope) == (1, ENVELOPE)


async def test_it_moves_at_most_twice_in_an_attempt(drive: Drive) -> None:
    await drive.backend.open_inbox(0, "a2")
    msg_id = await overdue_network(drive)
    for agent in ("a2", AGENT):
        await drive.decide(await drive.asked_again(), Plan("move", agent))
        await drive.live(4_000)
    result = await drive.decide(await drive.asked_again(), Plan("move", "a2"))
    assert result.verdict == "done"
    assert (await drive.leg(msg_id)).agent == AGENT
    assert len(await drive.inbox()) == 1


async def test_a_free_move_neither_counts_nor_is_bounded_by_two(drive: Drive) -> None:
    """From an inbox that nobody reads: `decide` bounds those, for it chooses no agent twice."""
    for agent in ("a2", "a3", "a4", "a5"):
        await drive.backend.open_inbox(0, agent)
    msg_id = await overdue_network(drive)
    moves = []
    for plan in (Plan("move", "a2"), Plan("move", "a3", free=True), Plan("move", "a4"), Plan("move", "a5", free=True)):
        await drive.decide(await drive.asked_again(), plan)
        moves.append((await drive.leg(msg_id)).moves)
        await drive.live(4_000)
    leg = await drive.leg(msg_id)
    assert moves == [1, 1, 2, 2]
    assert (leg.agent, leg.left) == ("a5", (AGENT, "a2", "a3", "a4"))
    assert [len(await drive.inbox(agent)) for agent in (AGENT, "a2", "a3", "a4", "a5")] == [0, 0, 0, 0, 1]


async def test_a_free_move_of_what_was_read_meanwhile_is_none(drive: Drive) -> None:
    await drive.backend.open_inbox(0, "a2")
    msg_id = await overdue_network(drive)
    entry = await drive.asked_again()
    await drive.place.read_plain(KEYS.inbox(0, AGENT, "normal"), "agent", "plain")
    await drive.decide(entry, Plan("move", "a2", free=True))
    leg = await drive.leg(msg_id)
    assert (leg.agent, leg.left) == (AGENT, ())


async def test_what_it_has_left_is_forgotten_with_the_attempt(drive: Drive) -> None:
    await drive.backend.open_inbox(0, "a2")
    msg_id = await overdue_network(drive)
    await drive.decide(await drive.asked_again(), Plan("move", "a2"))
    assert (await drive.leg(msg_id)).left == (AGENT,)
    (taken,) = await drive.take(agent="a2")
    assert await drive.settle_as("a2", taken, retryable()) == "done"
    leg = await drive.leg(msg_id)
    assert (leg.attempt, leg.moves, leg.left, leg.tried) == (1, 0, (), ("a2",))


async def test_what_was_read_meanwhile_does_not_move(drive: Drive) -> None:
    await drive.backend.open_inbox(0, "a2")
    msg_id = await overdue_network(drive)
    entry = await drive.asked_again()
    await drive.place.read_plain(KEYS.inbox(0, AGENT, "normal"), "agent", "plain")
    await drive.decide(entry, Plan("move", "a2"))
    assert (await drive.leg(msg_id)).agent == AGENT
    assert await drive.inbox("a2") == []


async def test_a_move_needs_room_and_an_inbox(drive: Drive) -> None:
    msg_id = await overdue_network(drive)
    entry = await drive.asked_again()
    before = await drive.leg(msg_id)
    assert (await drive.decide(entry, Plan("move", "nobody"))).verdict == "gone"
    assert await drive.leg(msg_id) == before
    assert len(await drive.inbox()) == 1


async def test_of_a_backlog_no_more_moves_than_there_is_room_for(drive: Drive) -> None:
    """What lies in any of its lanes counts, waiting or running; where there is no bound, nothing does."""
    await drive.backend.open_inbox(0, "a2")
    msg_id = await overdue_network(drive)
    entry = await drive.asked_again()
    await drive.sent(Plan("deliver", "a2"), lane="high")
    await drive.sent(Plan("deliver", "a2"), lane="low")
    await drive.take("i9", 1, "a2")
    assert (await drive.decide(entry, Plan("move", "a2", room=2))).verdict == "full"
    assert (await drive.leg(msg_id)).agent == AGENT
    assert (await drive.decide(entry, Plan("move", "a2", room=3))).verdict == "done"
    assert (await drive.leg(msg_id)).agent == "a2"


async def test_stay_leaves_it_where_it_is(drive: Drive) -> None:
    msg_id = await overdue_network(drive)
    before = await drive.leg(msg_id)
    assert (await drive.decide(await drive.asked_again(), Plan("stay"))).verdict == "done"
    assert await drive.leg(msg_id) == before
    assert (await drive.taken()).hand == before.hand


async def test_delay_of_a_queued_leg_is_stay(drive: Drive) -> None:
    msg_id = await overdue_network(drive)
    before = await drive.leg(msg_id)
    assert (await drive.decide(await drive.asked_again(), Plan("delay", wait_ms=1_000))).verdict == "done"
    assert await drive.leg(msg_id) == before


async def test_a_returned_leg_cannot_move(drive: Drive) -> None:
    _, entry = await drive.returned()
    assert (await drive.decide(entry, Plan("move", AGENT))).verdict == "changed"
