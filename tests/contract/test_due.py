"""due: what time does to a message."""

import pytest

from reach.backend.keys import GROUP_AGENT
from reach.backend.steps import Plan
from reach.envelope.ledger import LegState
from tests.contract.drive import AGENT, ENVELOPE, TO_AGENT, Drive, retryable, success
from tests.contract.places import KEYS

INBOX = KEYS.inbox(0, AGENT, "normal")


@pytest.fixture
async def late(drive: Drive) -> Drive:
    """A drive whose router has run for so long that no grace holds anything up."""
    await drive.past_grace()
    return drive


# ---------------------------------------------------------------- total and ttl


async def test_the_total_ends_a_queued_message(drive: Drive) -> None:
    msg_id = await drive.sent(total_ms=5_000)
    await drive.place.pass_time(5_001)
    (event,) = (await drive.backend.due(0)).events
    assert (event.msg_id, event.leg, event.what, event.code) == (msg_id, 0, "expired", "timeout.total")
    receipt = await drive.receipt()
    assert (receipt["code"], receipt["status"], receipt["details"]["state"]) == ("timeout.total", "retryable", "queued")
    assert (await drive.leg(msg_id)).state is LegState.EXPIRED
    assert await drive.inbox() == []
    assert await drive.place.due() == {}


async def test_the_total_ends_a_running_message_and_its_holder_is_stale(drive: Drive) -> None:
    taken = await drive.running(total_ms=5_000)
    await drive.place.pass_time(5_001)
    await drive.backend.due(0)
    receipt = await drive.receipt()
    assert (receipt["code"], receipt["details"]["state"]) == ("timeout.total", "running")
    assert await drive.backend.renew(0, AGENT, "i1", {"normal": [taken.hand]}) == set()
    assert await drive.settle(taken, success()) == "stale"


async def test_the_total_ends_waiting_and_returned_ones(drive: Drive) -> None:
    await drive.sent(Plan("delay", wait_ms=60_000), total_ms=5_000)
    await drive.returned(total_ms=5_000)
    await drive.place.pass_time(5_001)
    await drive.backend.due(0)
    receipts = await drive.receipts()
    assert sorted(each["details"]["state"] for each in receipts) == ["returned", "waiting"]
    assert {each["code"] for each in receipts} == {"timeout.total"}
    returned = next(each for each in receipts if each["details"]["state"] == "returned")
    assert returned["details"]["last_code"] == "handler.error"
    assert returned["attempts"] == 1


async def test_the_ttl_ends_what_was_never_handed_over(drive: Drive) -> None:
    msg_id = await drive.sent(ttl_ms=1_000)
    await drive.place.pass_time(1_001)
    (event,) = (await drive.backend.due(0)).events
    assert (event.what, event.code) == ("expired", "ttl.expired")
    assert (await drive.receipt())["code"] == "ttl.expired"
    assert (await drive.leg(msg_id)).state is LegState.EXPIRED
    assert await drive.inbox() == []


async def test_the_ttl_ends_a_first_wait(drive: Drive) -> None:
    await drive.sent(Plan("delay", wait_ms=60_000), ttl_ms=1_000)
    await drive.place.pass_time(1_001)
    await drive.backend.due(0)
    assert (await drive.receipt())["code"] == "ttl.expired"


async def test_the_ttl_does_not_touch_what_runs(drive: Drive) -> None:
    taken = await drive.running(ttl_ms=1_000)
    await drive.place.pass_time(1_500)
    assert (await drive.backend.due(0)).events == ()
    assert await drive.settle(taken, success()) == "done"


async def test_the_ttl_does_not_touch_what_a_plain_reader_holds(drive: Drive) -> None:
    msg_id = await drive.sent(ttl_ms=1_000)
    await drive.place.read_plain(INBOX, GROUP_AGENT, "plain-1")
    await drive.place.pass_time(1_500)
    assert (await drive.backend.due(0)).events == ()
    assert (await drive.leg(msg_id)).state in {LegState.QUEUED, LegState.RUNNING}


async def test_nothing_is_due_before_its_time(drive: Drive) -> None:
    await drive.sent()
    report = await drive.backend.due(0)
    assert (report.events, report.more) == ((), False)
    assert report.next_at_ms > report.now_ms


async def test_a_second_run_does_nothing(drive: Drive) -> None:
    await drive.sent(total_ms=1_000)
    await drive.place.pass_time(1_001)
    await drive.backend.due(0)
    await drive.mail()
    assert (await drive.backend.due(0)).events == ()
    assert await drive.mail() == []


async def test_an_empty_partition_has_nothing_due(drive: Drive) -> None:
    report = await drive.backend.due(0)
    assert (report.events, report.more, report.next_at_ms) == ((), False, 0)


async def test_a_hundred_messages_a_call(drive: Drive) -> None:
    for _ in range(110):
        await drive.sent(total_ms=1_000, reply_to="")
    await drive.place.pass_time(1_001)
    first = await drive.backend.due(0)
    second = await drive.backend.due(0)
    assert (len(first.events), first.more) == (100, True)
    assert (len(second.events), second.more) == (10, False)


async def test_a_member_without_a_record_is_dropped(drive: Drive) -> None:
    msg_id = await drive.sent()
    await drive.place.delete(KEYS.message(0, msg_id))
    await drive.place.pass_time(4_000)
    await drive.backend.due(0)
    assert await drive.place.due() == {}


# ---------------------------------------------------------------- network


async def test_what_nobody_picks_up_is_asked_for_and_stays(late: Drive) -> None:
    msg_id = await late.sent(network_ms=3_000)
    before = await late.leg(msg_id)
    (event,) = await late.live(3_001)
    assert (event.what, event.agent) == ("again", AGENT)
    entry = await late.asked_again()
    assert entry.fields == {b"m": msg_id.encode(), b"l": b"0", b"h": before.hand.encode()}
    after = await late.leg(msg_id)
    assert (after.state, after.hand, after.attempt) == (LegState.QUEUED, before.hand, 0)
    assert len(await late.inbox()) == 1


async def test_it_is_asked_again_after_3_6_and_12_seconds(late: Drive) -> None:
    await late.sent(network_ms=1_000, ttl_ms=60_000, total_ms=60_000)
    await late.live(1_001)
    await late.asked_again()
    asked = []
    for second in range(1, 38):
        await late.live(1_000)
        if await late.work("again"):
            asked.append(second)
    gaps = [b - a for a, b in zip([0, *asked], asked, strict=False)]
    assert all(abs(gap - said) <= 1 for gap, said in zip(gaps, [3, 6, 12, 15], strict=False)), gaps
    assert len(gaps) >= 4


async def test_an_entry_that_vanished_comes_back_free(late: Drive) -> None:
    msg_id = await late.sent(Plan("delay", wait_ms=100))
    await late.live(101)
    await late.decide(await late.asked_again(), TO_AGENT)
    hand = (await late.leg(msg_id)).hand
    await late.place.append(KEYS.ingress(0, "low"), {"e": ENVELOPE})
    await late.place.remove(INBOX, hand)
    events = await late.live(3_100)
    assert [event.what for event in events] == ["gone"]
    assert (await late.receipt())["code"] == "backend.unavailable"  # its bytes lay in the entry alone
    assert (await late.leg(msg_id)).attempt == 0


async def test_a_vanished_entry_whose_bytes_are_in_env_is_returned(late: Drive) -> None:
    await late.backend.open_inbox(0, "a2")
    large = b'"' + b"x" * 40_000 + b'"'
    msg_id = await late.sent(TO_AGENT, Plan("deliver", "a2"), scope="all", envelope=large)
    await late.place.remove(INBOX, (await late.leg(msg_id, 0)).hand)
    await late.live(3_100)
    leg = await late.leg(msg_id, 0)
    assert (leg.state, leg.attempt) == (LegState.RETURNED, 0)
    entries = {int(entry.fields[b"l"]): entry for entry in await late.work("again")}
    assert (await late.decide(entries[0], TO_AGENT)).verdict == "done"
    assert (await late.taken()).envelope == large


# ---------------------------------------------------------------- leases


async def test_a_silent_holder_loses_its_work_after_15_seconds(late: Drive) -> None:
    taken = await late.running(processing_ms=25_000)
    assert await late.live(12_500) == []
    (event,) = await late.live(4_500)
    assert (event.what, event.code, event.instance, event.attempt) == ("reclaimed", "agent.lost", "i1", 1)
    leg = await late.leg(taken.msg_id)
    assert (leg.state, leg.attempt, leg.tried) == (LegState.RETURNED, 1, (AGENT,))
    assert '"code":"agent.lost"' in leg.core
    assert '"code":"agent.lost"' in leg.history[0]
    assert await late.place.pending(INBOX, GROUP_AGENT) == []
    assert await late.settle(taken, success()) == "stale"
    assert await late.backend.renew(0, AGENT, "i1", {"normal": [taken.hand]}) == set()
    await late.decide(await late.asked_again(), TO_AGENT)
    again = await late.taken("i2")
    assert (again.attempt, again.envelope) == (2, ENVELOPE)
    assert await late.settle(again, success(), "i2") == "done"


async def test_a_dead_holder_is_told_from_a_slow_one(late: Drive) -> None:
    """With the defaults, processing and lease are over at once."""
    taken = await late.running(processing_ms=15_000)
    await late.live(3_000, renew=(taken.hand,))
    (event,) = await late.live(14_500)
    assert (event.what, event.code) == ("reclaimed", "agent.lost")


async def test_a_renewed_lease_keeps_the_work(late: Drive) -> None:
    taken = await late.running(processing_ms=60_000, total_ms=60_000)
    assert await late.live(40_000, renew=(taken.hand,)) == []
    assert await late.settle(taken, success()) == "done"


async def test_no_sign_of_life_of_the_handler_ends_the_run(late: Drive) -> None:
    taken = await late.running(processing_ms=5_000)
    events = await late.live(5_001, renew=(taken.hand,))
    assert [(event.what, event.code) for event in events] == [("overdue", "timeout.processing")]
    leg = await late.leg(taken.msg_id)
    assert (leg.state, leg.attempt) == (LegState.RETURNED, 1)
    assert '"code":"timeout.processing"' in leg.core


async def test_progress_keeps_the_run(late: Drive) -> None:
    taken = await late.running(processing_ms=5_000)
    for _ in range(3):
        assert await late.live(4_000, renew=(taken.hand,)) == []
        assert await late.backend.progress(0, taken.msg_id, 0, taken.hand, None) is True
    assert await late.settle(taken, success()) == "done"


async def test_a_plain_reader_that_dies_loses_its_work_too(late: Drive) -> None:
    msg_id = await late.sent(processing_ms=25_000)
    await late.place.read_plain(INBOX, GROUP_AGENT, "plain-1")
    events = await late.live(17_500)
    assert [(event.what, event.code) for event in events] == [("reclaimed", "agent.lost")]
    leg = await late.leg(msg_id)
    assert (leg.state, leg.attempt) == (LegState.RETURNED, 1)


async def test_a_running_entry_that_is_no_longer_pending_has_a_lease_for_its_holder_to_renew(late: Drive) -> None:
    """Its group was lost, or somebody acknowledged it by hand: nothing says that its holder is dead."""
    taken = await late.running(processing_ms=60_000)
    await late.place.drop_group(INBOX, GROUP_AGENT)
    assert await late.live(16_000) == []
    (row,) = await late.place.pending(INBOX, GROUP_AGENT)
    assert (row.id, row.consumer) == (taken.hand, "i1")
    event, *_ = await late.live(17_500)
    assert (event.what, event.attempt) == ("reclaimed", 1)


async def test_a_returned_leg_is_asked_for_again_and_again(late: Drive) -> None:
    msg_id, _ = await late.returned()
    events = await late.live(10_500)
    assert {event.what for event in events} == {"again"}
    assert len(events) >= 2
    assert (await late.leg(msg_id)).state is LegState.RETURNED


async def test_after_a_loss_the_last_answer_stands_in_the_receipt(late: Drive) -> None:
    taken = await late.running()
    await late.settle(taken, retryable("handler.error", '{"n":1}'))
    await late.live(31_000)
    receipt = await late.receipt()
    assert (receipt["code"], receipt["details"]["last_code"]) == ("timeout.total", "handler.error")


# ---------------------------------------------------------------- grace


async def test_a_missing_tick_begins_a_grace(drive: Drive) -> None:
    report = await drive.backend.due(0)
    assert report.grace_until_ms == report.now_ms + 15_000


async def test_in_the_grace_no_lease_ends(drive: Drive) -> None:
    """An outage must not take everybody's work."""
    taken = await drive.running(processing_ms=5_000)
    await drive.place.pass_time(20_000)
    assert (await drive.backend.due(0)).events == ()
    assert (await drive.leg(taken.msg_id)).state is LegState.RUNNING
    assert await drive.backend.renew(0, AGENT, "i1", {"normal": [taken.hand]}) == {taken.hand}
    assert await drive.settle(taken, success()) == "done"


async def test_in_the_grace_nothing_moves(drive: Drive) -> None:
    await drive.sent(network_ms=1_000)
    await drive.place.pass_time(4_000)
    assert (await drive.backend.due(0)).events == ()
    assert await drive.work("again") == []


async def test_in_the_grace_totals_and_ttls_still_end(drive: Drive) -> None:
    await drive.sent(total_ms=2_000)
    await drive.sent(ttl_ms=2_000)
    await drive.place.pass_time(2_001)
    await drive.backend.due(0)
    assert sorted(each["code"] for each in await drive.receipts()) == ["timeout.total", "ttl.expired"]


async def test_the_grace_is_over_after_15_seconds(drive: Drive) -> None:
    await drive.backend.due(0)
    taken = await drive.running(processing_ms=5_000)
    assert await drive.live(12_500, renew=(taken.hand,)) == []
    events = await drive.live(5_000, renew=(taken.hand,))
    assert [event.code for event in events] == ["timeout.processing"]


async def test_a_pause_of_due_begins_a_new_grace(late: Drive) -> None:
    taken = await late.running(processing_ms=5_000)
    await late.place.pass_time(6_000)
    report = await late.backend.due(0)
    assert report.events == ()
    assert report.grace_until_ms == report.now_ms + 15_000
    assert (await late.leg(taken.msg_id)).state is LegState.RUNNING


async def test_a_router_that_lives_begins_none(late: Drive) -> None:
    await late.live(10_000)
    report = await late.backend.due(0)
    assert report.grace_until_ms <= report.now_ms


async def test_a_tick_in_the_future_begins_a_grace(late: Drive) -> None:
    """The clock of Redis was set back."""
    await late.place.pass_time(-60_000)
    report = await late.backend.due(0)
    assert report.grace_until_ms == report.now_ms + 15_000


async def test_after_a_step_back_of_the_clock_leases_begin_anew(late: Drive) -> None:
    taken = await late.running(processing_ms=20_000, total_ms=200_000, ttl_ms=200_000)
    await late.place.pass_time(-60_000)
    events = await late.live(16_000, renew=(taken.hand,))
    assert [event.what for event in events if event.what == "reclaimed"] == []


# ---------------------------------------------------------------- a caller's own


async def test_a_caller_ends_its_own_message(drive: Drive) -> None:
    msg_id = await drive.sent(total_ms=5_000)
    await drive.place.pass_time(5_001)
    report = await drive.backend.due(0, msg_id)
    assert [event.code for event in report.events] == ["timeout.total"]
    assert report.deadline_at_ms == 0
    assert (await drive.receipt())["code"] == "timeout.total"


async def test_a_caller_hears_when_its_message_is_due_later(drive: Drive) -> None:
    msg_id = await drive.sent()
    head = await drive.head(msg_id)
    report = await drive.backend.due(0, msg_id)
    assert report.events == ()
    assert report.now_ms < report.deadline_at_ms <= head.total_at_ms


async def test_a_caller_writes_no_tick_and_takes_nobodys_work(drive: Drive) -> None:
    taken = await drive.running(processing_ms=1_000)
    await drive.place.pass_time(20_000)
    report = await drive.backend.due(0, taken.msg_id)
    assert report.events == ()
    assert (await drive.leg(taken.msg_id)).state is LegState.RUNNING
    assert await drive.place.type_of(KEYS.tick(0)) == "none"


async def test_a_caller_touches_no_other_message(drive: Drive) -> None:
    other, own = await drive.sent(total_ms=1_000), await drive.sent()
    await drive.place.pass_time(1_001)
    assert (await drive.backend.due(0, own)).events == ()
    assert (await drive.leg(other)).state is LegState.QUEUED


async def test_an_unknown_message_has_no_deadline(drive: Drive) -> None:
    report = await drive.backend.due(0, "00000000-0000-4000-8000-000000000000")
    assert (report.events, report.deadline_at_ms) == ((), 0)


async def test_how_long_ago_a_router_was_at_work_is_known(drive: Drive) -> None:
    assert await drive.backend.worker_silence_ms(0) is None
    await drive.backend.due(0)
    silence_ms = await drive.backend.worker_silence_ms(0)
    assert silence_ms is not None
    assert 0 <= silence_ms < 2_000
