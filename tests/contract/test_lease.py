"""renew and progress: signs of life."""

import json

from reach.backend.keys import GROUP_AGENT
from tests.contract.drive import AGENT, BOX, Drive, success
from tests.contract.places import KEYS

INBOX = KEYS.inbox(0, AGENT, "normal")


async def test_renewing_resets_the_idle_time_and_nothing_else(drive: Drive) -> None:
    taken = await drive.running()
    before = await drive.leg(taken.msg_id)
    await drive.place.pass_time(9_000)
    assert await drive.backend.renew(0, AGENT, "i1", {"normal": [taken.hand]}) == {taken.hand}
    (row,) = await drive.place.pending(INBOX, GROUP_AGENT)
    assert (row.consumer, row.deliveries) == ("i1", 1)
    assert row.idle_ms < 1_000
    after = await drive.leg(taken.msg_id)
    assert (after.state, after.hand, after.attempt) == (before.state, before.hand, before.attempt)


async def test_a_missing_answer_means_lost(drive: Drive) -> None:
    await drive.sent()
    await drive.sent()
    kept, cancelled = await drive.take()
    await drive.backend.cancel(0, cancelled.msg_id, "sender-1", 1, 0)
    held = {"normal": [kept.hand, cancelled.hand, "1-1"]}
    assert await drive.backend.renew(0, AGENT, "i1", held) == {kept.hand}


async def test_nothing_held_is_nothing(drive: Drive) -> None:
    assert await drive.backend.renew(0, AGENT, "i1", {}) == set()
    assert await drive.backend.renew(0, AGENT, "i1", {"normal": []}) == set()


async def test_lanes_are_renewed_together(drive: Drive) -> None:
    for lane in ("high", "low"):
        await drive.sent(lane=lane)
    held = {taken.lane: [taken.hand] for taken in await drive.take()}
    assert await drive.backend.renew(0, AGENT, "i1", held) == {hands[0] for hands in held.values()}


async def test_a_settled_one_is_not_held(drive: Drive) -> None:
    taken = await drive.running()
    await drive.settle(taken, success())
    assert await drive.backend.renew(0, AGENT, "i1", {"normal": [taken.hand]}) == set()


async def test_a_lane_that_has_lost_its_group_takes_no_work_from_who_does_it(drive: Drive) -> None:
    taken = await drive.running()
    held = {"normal": [taken.hand]}
    await drive.place.drop_group(INBOX, GROUP_AGENT)
    assert await drive.backend.renew(0, AGENT, "i1", held) == {taken.hand}
    await drive.place.drop_group(INBOX, GROUP_AGENT)
    await drive.backend.open_inbox(0, AGENT)  # a group to which nothing is pending yet
    assert await drive.backend.renew(0, AGENT, "i1", held) == {taken.hand}
    (row,) = await drive.place.pending(INBOX, GROUP_AGENT)
    assert (row.id, row.consumer) == (taken.hand, "i1")
    assert (await drive.backend.take(0, AGENT, "i2", 10)).taken == ()
    assert await drive.settle(taken, success()) == "done"


async def test_an_inbox_that_is_gone_holds_nothing(drive: Drive) -> None:
    taken = await drive.running()
    await drive.place.delete(INBOX)
    assert await drive.backend.renew(0, AGENT, "i1", {"normal": [taken.hand]}) == set()
    await drive.place.spoil(INBOX)
    assert await drive.backend.renew(0, AGENT, "i1", {"normal": [taken.hand]}) == set()
    await drive.backend.open_inbox(0, AGENT)
    assert await drive.backend.renew(0, AGENT, "i1", {"normal": [taken.hand]}) == set()


async def test_progress_is_a_sign_of_life_of_the_handler(drive: Drive) -> None:
    taken = await drive.running()
    await drive.place.pass_time(4_000)
    assert await drive.backend.progress(0, taken.msg_id, 0, taken.hand, None) is True
    leg = await drive.leg(taken.msg_id)
    assert leg.alive_at_ms - leg.taken_at_ms >= 4_000
    assert await drive.notices() != []  # the routed one
    assert await drive.notices() == []


async def test_progress_may_tell_the_caller(drive: Drive) -> None:
    taken = await drive.running()
    await drive.mail()
    notice = {"notice": "progress", "msg_id": taken.msg_id, "percent": 40}
    assert await drive.backend.progress(0, taken.msg_id, 0, taken.hand, json.dumps(notice).encode()) is True
    assert await drive.notices() == [notice]


async def test_progress_is_fenced_by_the_hand(drive: Drive) -> None:
    taken = await drive.running()
    await drive.mail()
    notice = b'{"notice":"progress"}'
    assert await drive.backend.progress(0, taken.msg_id, 0, "1-1", notice) is False
    assert await drive.backend.progress(0, taken.msg_id, 5, taken.hand, notice) is False
    await drive.settle(taken, success())
    assert await drive.backend.progress(0, taken.msg_id, 0, taken.hand, notice) is False
    await drive.place.delete(KEYS.message(0, taken.msg_id))
    assert await drive.backend.progress(0, taken.msg_id, 0, taken.hand, notice) is False
    assert await drive.notices(BOX) == []


# ---------------------------------------------------------------- whose lease it is


async def test_nobody_renews_the_lease_of_another(drive: Drive) -> None:
    taken = await drive.running()
    await drive.place.pass_time(9_000)
    assert await drive.backend.renew(0, AGENT, "i2", {"normal": [taken.hand]}) == set()
    (row,) = await drive.place.pending(INBOX, GROUP_AGENT)
    assert row.consumer == "i1"
    assert row.idle_ms >= 9_000


async def test_many_are_renewed_and_each_is_told_of(drive: Drive) -> None:
    hands = [f"{number}-1" for number in range(1, 1_201)]
    for hand in hands:
        await drive.place.append(INBOX, {"m": b"junk"}, hand)
    await drive.place.read_plain(INBOX, GROUP_AGENT, "i1", 1_100)
    assert await drive.backend.renew(0, AGENT, "i1", {"normal": hands}) == set(hands[:1_100])


async def test_who_had_it_before_the_last_second_was_lost_keeps_nobody_elses_lease(drive: Drive) -> None:
    """Redis comes back without a take; another one takes it, and dies. The first one runs it still, and renews."""
    await drive.past_grace()
    await drive.sent(processing_ms=60_000, ttl_ms=200_000, total_ms=200_000)
    snapshot = await drive.place.remember()
    taken = await drive.taken("i1")
    await drive.place.rewind(snapshot)
    assert [again.hand for again in await drive.take("i2")] == [taken.hand]
    events = await drive.live(17_500, renew=(taken.hand,))
    assert [(event.what, event.instance) for event in events] == [("reclaimed", "i2")]


async def test_what_is_taken_anew_after_the_last_second_was_lost_is_the_same_run(drive: Drive) -> None:
    await drive.past_grace()
    await drive.sent(processing_ms=60_000, ttl_ms=200_000, total_ms=200_000)
    snapshot = await drive.place.remember()
    taken = await drive.taken("i1")
    await drive.place.rewind(snapshot)
    assert await drive.backend.renew(0, AGENT, "i1", {"normal": [taken.hand]}) == set()  # it lies there untaken
    assert [again.hand for again in await drive.take("i1")] == [taken.hand]
    assert await drive.live(17_500, renew=(taken.hand,)) == []
    assert await drive.settle(taken, success()) == "done"
