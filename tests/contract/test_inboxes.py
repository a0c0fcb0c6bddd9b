"""open_inbox and close_inbox."""

from reach.backend.keys import GROUP_AGENT, LANES
from reach.backend.steps import Plan
from reach.envelope.ledger import LegState
from tests.contract.drive import AGENT, ENVELOPE, TO_AGENT, Drive, success
from tests.contract.places import KEYS

INBOX = KEYS.inbox(0, AGENT, "normal")


async def lanes(drive: Drive, agent: str = AGENT) -> set[str]:
    return {await drive.place.type_of(KEYS.inbox(0, agent, lane)) for lane in LANES}


async def test_opening_makes_three_lanes_that_stay(drive: Drive) -> None:
    await drive.backend.open_inbox(0, "a2")
    assert await lanes(drive, "a2") == {"stream"}
    assert {await drive.place.ttl_ms(KEYS.inbox(0, "a2", lane)) for lane in LANES} == {-1}


async def test_B010_opening_again_changes_nothing(drive: Drive) -> None:
    """A group that is there is success."""
    msg_id = await drive.sent()
    await drive.backend.open_inbox(0, AGENT)
    assert (await drive.taken()).msg_id == msg_id
    await drive.backend.open_inbox(0, AGENT)
    assert len(await drive.place.pending(INBOX, GROUP_AGENT)) == 1


async def test_a_lost_group_begins_at_zero(drive: Drive) -> None:
    msg_id = await drive.sent()
    await drive.place.drop_group(INBOX, GROUP_AGENT)
    assert (await drive.backend.take(0, AGENT, "i1", 10)).gone is True
    await drive.backend.open_inbox(0, AGENT)
    assert (await drive.taken()).msg_id == msg_id


async def test_opening_tells_whether_something_had_to_be_made(drive: Drive) -> None:
    assert await drive.backend.open_inbox(0, "a2") is True
    assert await drive.backend.open_inbox(0, "a2") is False
    for spoil in (drive.place.delete, drive.place.spoil, lambda key: drive.place.drop_group(key, GROUP_AGENT)):
        await spoil(KEYS.inbox(0, "a2", "low"))
        assert await drive.backend.open_inbox(0, "a2") is True
        assert await drive.backend.open_inbox(0, "a2") is False


async def test_a_send_makes_a_lost_group_anew(drive: Drive) -> None:
    before = await drive.sent()
    await drive.place.drop_group(INBOX, GROUP_AGENT)
    after = await drive.sent()
    assert [taken.msg_id for taken in await drive.take()] == [before, after]


async def test_due_makes_a_lost_group_anew_for_what_lies_there(drive: Drive) -> None:
    msg_id = await drive.sent(network_ms=1_000)
    await drive.place.drop_group(INBOX, GROUP_AGENT)
    await drive.place.pass_time(1_001)
    await drive.backend.due(0)
    assert (await drive.leg(msg_id)).state is LegState.QUEUED
    assert (await drive.taken()).msg_id == msg_id


async def test_what_runs_survives_the_loss_of_its_group(drive: Drive) -> None:
    """The new group gives it out again: it is its holder's as before, whoever takes it."""
    taken = await drive.running()
    await drive.place.drop_group(INBOX, GROUP_AGENT)
    await drive.backend.open_inbox(0, AGENT)
    assert await drive.take("i2") == []
    assert [(row.id, row.consumer) for row in await drive.place.pending(INBOX, GROUP_AGENT)] == [(taken.hand, "i1")]
    assert await drive.backend.renew(0, AGENT, "i1", {"normal": [taken.hand]}) == {taken.hand}
    (again,) = (await drive.backend.take(0, AGENT, "i1", 10, [])).taken  # it has lost it: it comes again
    assert (again.msg_id, again.hand, again.attempt, again.envelope) == (taken.msg_id, taken.hand, 1, ENVELOPE)
    assert await drive.settle(again, success()) == "done"
    assert await drive.inbox() == []


async def test_what_another_instance_runs_does_not_come_again(drive: Drive) -> None:
    """A lane that has lost its group gives it out twice, here to a plain read of i1."""
    await drive.sent()
    taken = await drive.taken("i2")
    await drive.place.drop_group(INBOX, GROUP_AGENT)
    await drive.backend.open_inbox(0, AGENT)
    await drive.place.read_plain(INBOX, GROUP_AGENT, "i1")
    assert (await drive.backend.take(0, AGENT, "i1", 10, [])).taken == ()
    assert await drive.settle(taken, success(), "i2") == "done"


async def test_an_entry_of_another_lane_is_not_taken_for_what_runs(drive: Drive) -> None:
    taken = await drive.running()
    fields = {b"m": taken.msg_id.encode(), b"l": b"0", b"e": b"{}"}
    low = KEYS.inbox(0, AGENT, "low")
    await drive.place.append(low, {name.decode(): value for name, value in fields.items()}, taken.hand)
    assert await drive.take("i2") == []
    assert await drive.place.entries(low) == []
    assert await drive.settle(taken, success()) == "done"


async def test_an_empty_inbox_is_closed_at_once(drive: Drive) -> None:
    assert await drive.backend.close_inbox(0, AGENT) is True
    assert await lanes(drive) == {"none"}
    assert await drive.backend.close_inbox(0, AGENT) is True


async def test_closing_gives_undelivered_work_back_free(drive: Drive) -> None:
    msg_id = await drive.sent()
    assert await drive.backend.close_inbox(0, AGENT) is True
    assert await lanes(drive) == {"none"}
    leg = await drive.leg(msg_id)
    assert (leg.state, leg.attempt, leg.tried) == (LegState.RETURNED, 0, ())
    await drive.backend.open_inbox(0, "a2")
    assert (await drive.decide(await drive.asked_again(), Plan("deliver", "a2"))).verdict == "done"
    (taken,) = await drive.take(agent="a2")
    assert (taken.attempt, taken.envelope) == (1, ENVELOPE)


async def test_what_runs_keeps_the_inbox_open(drive: Drive) -> None:
    running, queued = await drive.running(), await drive.sent()
    assert await drive.backend.close_inbox(0, AGENT) is False
    assert (await drive.leg(running.msg_id)).state is LegState.RUNNING
    assert (await drive.leg(queued)).state is LegState.RETURNED
    assert await drive.settle(running, success()) == "done"
    assert await drive.backend.close_inbox(0, AGENT) is True
    assert await lanes(drive) == {"none"}


async def test_a_lease_that_is_over_does_not_keep_it_open(drive: Drive) -> None:
    taken = await drive.running()
    await drive.place.pass_time(15_001)
    assert await drive.backend.close_inbox(0, AGENT) is True
    leg = await drive.leg(taken.msg_id)
    assert (leg.state, leg.attempt) == (LegState.RETURNED, 1)
    assert '"code":"agent.lost"' in leg.core
    assert await drive.settle(taken, success()) == "stale"
    await drive.backend.open_inbox(0, AGENT)
    assert (await drive.decide(await drive.asked_again(), TO_AGENT)).verdict == "done"


async def test_a_large_inbox_is_closed_in_a_few_calls(drive: Drive) -> None:
    for _ in range(30):
        await drive.sent(reply_to="")
    calls = 1
    while not await drive.backend.close_inbox(0, AGENT):
        calls += 1
        assert calls < 5
    assert len(await drive.work("again")) == 30


async def test_of_more_than_a_thousand_that_run_none_is_moved(drive: Drive) -> None:
    await drive.sent(*[TO_AGENT] * 1_100, scope="all", reply_to="")
    taken = [one for _ in range(11) for one in await drive.take(free=100)]
    queued = await drive.sent()
    assert await drive.backend.close_inbox(0, AGENT) is False
    states = {(await drive.leg(one.msg_id, one.leg)).state for one in (taken[0], taken[999], taken[1_000], taken[-1])}
    assert states == {LegState.RUNNING}
    assert [entry.fields[b"m"] for entry in await drive.work("again")] == [queued.encode()]
    assert len(await drive.place.entries(INBOX)) == 1_100
    await drive.backend.cancel(0, taken[0].msg_id, "sender-1", 1, 0)
    assert await drive.backend.close_inbox(0, AGENT) is True


async def test_what_was_acknowledged_and_not_deleted_goes_back_when_nobody_works_there(drive: Drive) -> None:
    """An agent without scripts that forgot its XDEL, and never told a result."""
    msg_id, running = await drive.sent(), await drive.sent()
    (first, second) = await drive.place.read_plain(INBOX, GROUP_AGENT, "plain", 2)
    await drive.place.acknowledge(INBOX, GROUP_AGENT, first)
    assert await drive.backend.close_inbox(0, AGENT) is False
    await drive.place.acknowledge(INBOX, GROUP_AGENT, second)
    assert await drive.backend.close_inbox(0, AGENT) is True
    assert {(await drive.leg(each)).state for each in (msg_id, running)} == {LegState.RETURNED}


async def test_an_entry_that_is_not_the_legs_hand_gives_nothing_back(drive: Drive) -> None:
    running = await drive.running()
    await drive.place.append(INBOX, {"m": running.msg_id.encode(), "l": b"0", "e": ENVELOPE})
    assert await drive.backend.close_inbox(0, AGENT) is False
    assert (await drive.leg(running.msg_id)).state is LegState.RUNNING
    assert await drive.work("again") == []
    assert await drive.settle(running, success()) == "done"


async def test_junk_in_an_inbox_does_not_keep_it_open(drive: Drive) -> None:
    await drive.place.append(INBOX, {"junk": b"\xff"})
    await drive.place.append(INBOX, {"m": b"unknown", "l": b"0"})
    assert await drive.backend.close_inbox(0, AGENT) is True


async def test_a_lane_of_the_wrong_type_is_removed(drive: Drive) -> None:
    await drive.place.spoil(INBOX)
    assert await drive.backend.close_inbox(0, AGENT) is True
    assert await lanes(drive) == {"none"}


async def test_nothing_is_delivered_to_a_closed_inbox(drive: Drive) -> None:
    await drive.backend.close_inbox(0, AGENT)
    _, result = await drive.send()
    assert result.verdict == "gone"
