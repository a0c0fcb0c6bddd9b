"""take: hand over what may run, and nothing else."""

import pytest

from reach.backend.keys import GROUP_AGENT
from reach.backend.steps import Plan
from reach.envelope.ledger import LegState
from tests.contract.drive import AGENT, ENVELOPE, TO_AGENT, Drive, success
from tests.contract.places import KEYS

INBOX = KEYS.inbox(0, AGENT, "normal")


async def test_a_taken_message_runs(drive: Drive) -> None:
    msg_id = await drive.sent(processing_ms=9_000)
    taken = await drive.taken()
    leg, head = await drive.leg(msg_id), await drive.head(msg_id)
    assert (taken.msg_id, taken.leg, taken.attempt, taken.lane, taken.partition) == (msg_id, 0, 1, "normal", 0)
    assert (taken.envelope, taken.hand) == (ENVELOPE, leg.hand)
    assert (taken.total_at_ms, taken.processing_ms) == (head.total_at_ms, 9_000)
    assert (leg.state, leg.instance, leg.handed) == (LegState.RUNNING, "i1", True)
    assert leg.taken_at_ms == leg.alive_at_ms == taken.now_ms
    assert [row.consumer for row in await drive.place.pending(INBOX, GROUP_AGENT)] == ["i1"]


async def test_it_is_handed_over_once(drive: Drive) -> None:
    await drive.sent()
    assert len(await drive.take("i1")) == 1
    assert await drive.take("i1") == []
    assert await drive.take("i2") == []


async def test_never_more_than_the_free_slots(drive: Drive) -> None:
    for lane in ("high", "normal", "low"):
        for _ in range(2):
            await drive.sent(lane=lane)
    assert len(await drive.take(free=3)) == 3
    assert len(await drive.take(free=1)) == 1
    assert await drive.take(free=0) == []
    assert len(await drive.take(free=10)) == 2


async def test_lanes_in_order(drive: Drive) -> None:
    for lane in ("low", "normal", "high"):
        await drive.sent(lane=lane)
    assert [taken.lane for taken in await drive.take()] == ["high", "normal", "low"]


async def test_in_the_order_in_which_they_were_routed(drive: Drive) -> None:
    sent = [await drive.sent() for _ in range(4)]
    assert [taken.msg_id for taken in await drive.take()] == sent


async def test_B007_what_was_sent_before_the_agent_started_arrives(drive: Drive) -> None:
    sent = [await drive.sent() for _ in range(20)]
    assert [taken.msg_id for taken in await drive.take(free=100)] == sent


async def test_an_expired_ttl_is_not_handed_over(drive: Drive) -> None:
    msg_id = await drive.sent(ttl_ms=1_000)
    await drive.place.pass_time(1_001)
    result = await drive.backend.take(0, AGENT, "i1", 10)
    assert (result.taken, result.expired) == ((), 1)
    receipt = await drive.receipt()
    assert (receipt["code"], receipt["status"], receipt["details"]["state"]) == ("ttl.expired", "retryable", "queued")
    assert (await drive.leg(msg_id)).state is LegState.EXPIRED
    assert await drive.inbox() == []
    assert await drive.place.due() == {}


async def test_total_over_is_not_handed_over(drive: Drive) -> None:
    await drive.sent(ttl_ms=2_000, total_ms=1_000)
    await drive.place.pass_time(1_001)
    assert (await drive.backend.take(0, AGENT, "i1", 10)).expired == 1
    assert (await drive.receipt())["code"] == "timeout.total"


async def test_a_retry_is_not_bound_by_the_ttl(drive: Drive) -> None:
    """ttl bounds the first hand-over only."""
    _, entry = await drive.returned(ttl_ms=1_000)
    await drive.place.pass_time(2_000)
    assert (await drive.decide(entry, TO_AGENT)).verdict == "done"
    assert (await drive.taken()).attempt == 2


async def test_a_cancelled_message_is_not_handed_over(drive: Drive) -> None:
    msg_id = await drive.sent()
    await drive.backend.cancel(0, msg_id, "sender-1", 1, 0)
    assert await drive.take() == []
    assert await drive.inbox() == []


async def test_an_entry_that_nobody_routed_is_dropped(drive: Drive) -> None:
    """A forged inbox entry proves nothing: hand is the id that route wrote."""
    msg_id = await drive.sent()
    await drive.taken()
    await drive.place.append(INBOX, {"m": msg_id.encode(), "l": b"0", "e": b"{}", "x": b"1", "a": b"1"})
    await drive.place.append(INBOX, {"junk": b"\xff"})
    await drive.place.append(INBOX, {"m": b"unknown", "l": b"x"})
    assert await drive.take() == []
    assert len(await drive.inbox()) == 1
    assert len(await drive.place.pending(INBOX, GROUP_AGENT)) == 1


async def test_a_missing_lane_is_told(drive: Drive) -> None:
    assert (await drive.backend.take(0, AGENT, "i1", 10)).gone is False
    assert (await drive.backend.take(0, "nobody", "i1", 10)).gone is True
    await drive.place.delete(INBOX)
    assert (await drive.backend.take(0, AGENT, "i1", 10)).gone is True
    await drive.backend.open_inbox(0, AGENT)
    assert (await drive.backend.take(0, AGENT, "i1", 10)).gone is False


async def test_a_lane_of_the_wrong_type_is_gone(drive: Drive) -> None:
    await drive.place.spoil(INBOX)
    assert (await drive.backend.take(0, AGENT, "i1", 10)).gone is True
    await drive.backend.open_inbox(0, AGENT)
    await drive.sent()
    assert len(await drive.take()) == 1


# ---------------------------------------------------------------- after a lost connection


async def test_what_is_not_held_comes_again_with_the_same_hand(drive: Drive) -> None:
    first, second = await drive.sent(), await drive.sent()
    lost, kept = await drive.take()
    result = await drive.backend.take(0, AGENT, "i1", 10, [(kept.lane, kept.hand)])
    (again,) = result.taken
    assert (again.msg_id, again.hand, again.attempt, again.envelope) == (first, lost.hand, 1, ENVELOPE)
    assert (await drive.leg(first)).attempt == 0
    assert (await drive.leg(second)).state is LegState.RUNNING
    assert await drive.settle(again, success()) == "done"


async def test_only_ones_own_come_again(drive: Drive) -> None:
    await drive.sent()
    await drive.taken("i2")
    assert (await drive.backend.take(0, AGENT, "i1", 10, [])).taken == ()
    assert [row.consumer for row in await drive.place.pending(INBOX, GROUP_AGENT)] == ["i2"]


async def test_without_held_nothing_comes_again(drive: Drive) -> None:
    await drive.running()
    assert await drive.take() == []


async def test_what_comes_again_counts_against_the_free_slots(drive: Drive) -> None:
    for _ in range(3):
        await drive.sent()
    await drive.take(free=2)
    assert len((await drive.backend.take(0, AGENT, "i1", 2, [])).taken) == 2
    assert len((await drive.backend.take(0, AGENT, "i1", 3, [])).taken) == 3


async def test_what_a_plain_read_took_comes_again_too(drive: Drive) -> None:
    msg_id = await drive.sent()
    await drive.place.read_plain(INBOX, GROUP_AGENT, "i1")
    (again,) = (await drive.backend.take(0, AGENT, "i1", 10, [])).taken
    assert again.msg_id == msg_id


async def test_of_more_than_a_thousand_that_are_held_the_others_come_again(drive: Drive) -> None:
    await drive.sent(*[TO_AGENT] * 1_100, scope="all", reply_to="")
    taken = [one for _ in range(11) for one in await drive.take(free=1_000)]
    assert len(taken) == 1_100
    result = await drive.backend.take(0, AGENT, "i1", 100, [(one.lane, one.hand) for one in taken[:1_050]])
    assert [one.leg for one in result.taken] == list(range(1_050, 1_100))
    assert result.more is False


async def test_what_does_not_fit_when_it_comes_again_is_told(drive: Drive) -> None:
    for _ in range(3):
        await drive.sent()
    hands = [one.hand for one in await drive.take()]
    first = await drive.backend.take(0, AGENT, "i1", 2, [])
    assert ([one.hand for one in first.taken], first.more) == (hands[:2], True)
    rest = await drive.backend.take(0, AGENT, "i1", 2, [("normal", hand) for hand in hands[:2]])
    assert ([one.hand for one in rest.taken], rest.more) == (hands[2:], False)


# ---------------------------------------------------------------- a share for low


@pytest.mark.parametrize("waiting", ["normal", "low"])
async def test_every_eighth_message_is_of_the_lowest_lane_that_has_one(drive: Drive, waiting: str) -> None:
    """One at a time, and always more in the lanes above: what waits below still comes."""
    lanes = []
    for _ in range(3):
        await drive.sent(lane=waiting)
    for turn in range(24):
        await drive.sent(lane="high")
        (taken,) = (await drive.backend.take(0, AGENT, "i1", 1, turn=turn)).taken
        lanes.append(taken.lane)
    assert [number for number, lane in enumerate(lanes, 1) if lane == waiting] == [8, 16, 24]
    assert set(lanes) == {"high", waiting}


async def test_the_share_is_the_same_in_one_call(drive: Drive) -> None:
    for lane in ("high", "low"):
        for _ in range(20):
            await drive.sent(lane=lane)
    lanes = [taken.lane for taken in (await drive.backend.take(0, AGENT, "i1", 16, turn=3)).taken]
    assert [number for number, lane in enumerate(lanes, 1) if lane == "low"] == [5, 13]


async def test_the_share_of_an_empty_lane_goes_to_the_others(drive: Drive) -> None:
    for _ in range(10):
        await drive.sent(lane="high")
    assert len(await drive.take(free=10)) == 10


# ---------------------------------------------------------------- how much one call gives


async def test_one_call_gives_a_hundred_at_most(drive: Drive) -> None:
    await drive.sent(*[TO_AGENT] * 150, scope="all", reply_to="")
    first = await drive.backend.take(0, AGENT, "i1", 1_000)
    assert len(first.taken) == 100
    assert await drive.backend.ring(AGENT, {0: first.cursors}, 0) is True
    assert len(await drive.take(free=1_000)) == 50


async def test_one_call_gives_about_a_mebibyte(drive: Drive) -> None:
    for _ in range(5):
        await drive.sent(envelope=b"e" * 400_000)
    first = await drive.backend.take(0, AGENT, "i1", 10)
    assert len(first.taken) == 3
    assert await drive.backend.ring(AGENT, {0: first.cursors}, 0) is True
    assert len(await drive.take()) == 2


async def test_one_call_gives_one_of_any_size(drive: Drive) -> None:
    await drive.sent(envelope=b"e" * 3_000_000)
    await drive.sent()
    assert [len(taken.envelope) for taken in await drive.take()] == [3_000_000]
    assert len(await drive.take()) == 1


async def test_what_comes_again_is_bounded_too(drive: Drive) -> None:
    for _ in range(5):
        await drive.sent(envelope=b"e" * 400_000)
    hands = [taken.hand for _ in range(2) for taken in await drive.take()]
    result = await drive.backend.take(0, AGENT, "i1", 10, [])
    assert ([taken.hand for taken in result.taken], result.more) == (hands[:3], True)


async def test_a_call_looks_at_so_many_entries_and_no_more(drive: Drive) -> None:
    """A lane full of what is over is cleared in a few calls, none of which holds up the others."""
    await drive.sent(*[TO_AGENT] * 700, scope="all", reply_to="", ttl_ms=1_000)
    await drive.place.pass_time(1_001)
    first = await drive.backend.take(0, AGENT, "i1", 10)
    assert (first.taken, first.expired) == ((), 300)
    assert await drive.backend.ring(AGENT, {0: first.cursors}, 0) is True
    assert sum([(await drive.backend.take(0, AGENT, "i1", 10)).expired for _ in range(2)]) == 400


# ---------------------------------------------------------------- the bell


async def test_the_bell_rings_for_what_lies_behind_the_cursors(drive: Drive) -> None:
    cursors = (await drive.backend.take(0, AGENT, "i1", 10)).cursors
    assert set(cursors) == {"high", "normal", "low"}
    assert await drive.backend.ring(AGENT, {0: cursors}, 0) is False
    await drive.sent(lane="low")
    assert await drive.backend.ring(AGENT, {0: cursors}, 0) is True


async def test_the_bell_is_silent_for_what_was_taken(drive: Drive) -> None:
    await drive.sent()
    result = await drive.backend.take(0, AGENT, "i1", 10)
    assert await drive.backend.ring(AGENT, {0: result.cursors}, 0) is False


async def test_the_bell_rings_for_what_did_not_fit(drive: Drive) -> None:
    await drive.sent()
    await drive.sent()
    result = await drive.backend.take(0, AGENT, "i1", 1)
    assert len(result.taken) == 1
    assert await drive.backend.ring(AGENT, {0: result.cursors}, 0) is True


async def test_the_bell_ends_after_its_time(drive: Drive) -> None:
    cursors = (await drive.backend.take(0, AGENT, "i1", 10)).cursors
    assert await drive.backend.ring(AGENT, {0: cursors}, 20) is False


async def test_the_bell_hangs_over_several_partitions(drive: Drive) -> None:
    await drive.backend.open_inbox(2, AGENT)
    cursors = {p: (await drive.backend.take(p, AGENT, "i1", 10)).cursors for p in (0, 2)}
    await drive.sent()
    assert await drive.backend.ring(AGENT, cursors, 0) is True


async def test_a_lane_of_the_wrong_type_does_not_break_the_bell(drive: Drive) -> None:
    cursors = (await drive.backend.take(0, AGENT, "i1", 10)).cursors
    await drive.place.spoil(INBOX)
    await drive.backend.ring(AGENT, {0: cursors}, 0)
    await drive.backend.open_inbox(0, AGENT)
    await drive.sent(Plan("deliver", AGENT))
    assert await drive.backend.ring(AGENT, {0: cursors}, 0) is True
