"""route: a greater round re-opens what ended retryable; every other repeat stays a duplicate."""

import pytest

from reach.backend.steps import CancelResult, Plan
from reach.envelope.ledger import LegState
from tests.contract.drive import AGENT, BOX, TO_AGENT, Drive, core, failure, new_id, retryable, success
from tests.contract.places import KEYS

FINISH = Plan("finish", answer=retryable("route.no_candidate"))


async def ended(drive: Drive, **head: object) -> str:
    """A message whose run failed for good, though again could help; the mailbox is read."""
    taken = await drive.running(**head)
    await drive.settle(taken, retryable())
    assert (await drive.decide(await drive.asked_again(), FINISH)).verdict == "done"
    await drive.mail()
    return taken.msg_id


async def test_a_greater_round_runs_a_message_again_that_ended_retryable(drive: Drive) -> None:
    msg_id = await ended(drive)
    await drive.backend.keep_mailbox("second", [0])
    _, result = await drive.send(msg_id=msg_id, round=2, reply_to="second")
    assert (result.verdict, result.known, len(result.hands)) == ("done", "", 1)
    head, leg = await drive.head(msg_id), await drive.leg(msg_id)
    assert (head.round, head.open, head.mailboxes) == (2, 1, ("second",))
    assert (leg.state, leg.attempt, leg.tried, leg.moves, leg.history) == (LegState.QUEUED, 0, (), 0, ())
    taken = await drive.taken()
    assert taken.attempt == 1
    assert await drive.settle(taken, success()) == "done"
    receipt = await drive.receipt("second")
    assert (receipt["code"], receipt["round"], receipt["stored"]) == ("ok", 2, False)
    assert await drive.receipts() == []  # who waited for the first round has its receipt


async def test_the_new_round_has_deadlines_of_its_own(drive: Drive) -> None:
    msg_id = await ended(drive)
    before = await drive.head(msg_id)
    await drive.place.pass_time(20_000)
    now_ms = await drive.backend.now_ms()
    await drive.sent(msg_id=msg_id, round=2)
    after = await drive.head(msg_id)
    assert after.total_at_ms - before.total_at_ms > 0
    assert abs(after.total_at_ms - now_ms - 30_000) < 5_000
    assert set(await drive.place.due()) == {msg_id}


@pytest.mark.parametrize("round_", [1, 2])
async def test_the_same_or_a_lower_round_is_a_duplicate(drive: Drive, round_: int) -> None:
    msg_id = await ended(drive, round=2)
    _, result = await drive.send(msg_id=msg_id, round=round_)
    assert result.known == "duplicate"
    assert (await drive.receipt())["stored"] is True
    assert (await drive.head(msg_id)).round == 2


async def test_a_greater_round_of_what_ended_for_good_or_goes_on_is_a_duplicate(drive: Drive) -> None:
    for answer in (success(), failure()):
        taken = await drive.running()
        await drive.settle(taken, answer)
        assert (await drive.send(msg_id=taken.msg_id, round=2))[1].known == "duplicate"
        assert (await drive.leg(taken.msg_id)).state == LegState.DONE
    going_on = await drive.sent()
    assert (await drive.send(msg_id=going_on, round=2))[1].known == "duplicate"
    assert (await drive.head(going_on)).round == 1
    wide = await drive.sent(TO_AGENT, FINISH, scope="all")  # one leg has ended, the other goes on
    assert (await drive.send(TO_AGENT, FINISH, scope="all", msg_id=wide, round=2))[1].known == "duplicate"
    assert (await drive.head(wide)).round == 1


async def test_an_output_that_looks_like_a_status_re_opens_nothing(drive: Drive) -> None:
    taken = await drive.running()
    await drive.settle(taken, success('{"status":"retryable"}'))
    assert (await drive.send(msg_id=taken.msg_id, round=2))[1].known == "duplicate"
    assert core().startswith('{"status":')


async def test_another_sender_or_content_cannot_re_open(drive: Drive) -> None:
    msg_id = await ended(drive)
    for sender, fingerprint in (("sender-2", "f" * 16), ("sender-1", "0" * 16)):
        _, result = await drive.send(msg_id=msg_id, round=2, sender=sender, fingerprint=fingerprint)
        assert result.known == "conflict"
    assert (await drive.head(msg_id)).round == 1


async def test_no_room_re_opens_nothing(drive: Drive) -> None:
    msg_id = await ended(drive)
    _, result = await drive.send(Plan("deliver", "nobody"), msg_id=msg_id, round=2)
    assert result.verdict == "gone"
    assert (await drive.head(msg_id)).round == 1


async def test_the_holder_of_the_former_round_is_stale(drive: Drive) -> None:
    taken = await drive.running(total_ms=1_000)
    await drive.place.pass_time(2_000)
    await drive.backend.due(0)
    assert (await drive.receipt())["code"] == "timeout.total"
    await drive.sent(msg_id=taken.msg_id, round=2)
    assert await drive.settle(taken, success()) == "stale"
    assert (await drive.leg(taken.msg_id)).state == LegState.QUEUED
    assert len(await drive.inbox()) == 1


async def test_a_reference_of_the_former_round_does_nothing_to_a_leg_that_waits(drive: Drive) -> None:
    msg_id = new_id()
    await drive.sent(Plan("delay", wait_ms=0), msg_id=msg_id, total_ms=1_000)
    await drive.place.pass_time(500)
    await drive.backend.due(0)
    old = await drive.asked_again()
    await drive.place.pass_time(1_000)
    await drive.backend.due(0)
    await drive.sent(Plan("delay", wait_ms=0), msg_id=msg_id, round=2)
    result = await drive.decide(old, TO_AGENT)
    assert (result.verdict, result.known) == ("done", "silent")
    assert (await drive.leg(msg_id)).state == LegState.WAITING
    await drive.backend.due(0)
    assert (await drive.decide(await drive.asked_again(), TO_AGENT)).verdict == "done"
    assert (await drive.taken()).msg_id == msg_id


async def test_of_a_broadcast_only_the_retryable_legs_re_open(drive: Drive) -> None:
    for agent in ("a2", "a3"):
        await drive.backend.open_inbox(0, agent)
    three = (Plan("deliver", AGENT), Plan("deliver", "a2"), Plan("deliver", "a3"))
    msg_id = await drive.sent(*three, scope="all")
    answers = {AGENT: success("1"), "a2": retryable(), "a3": retryable()}
    for agent, answer in answers.items():
        (taken,) = await drive.take(agent=agent)
        assert await drive.settle_as(agent, taken, answer) == "done"
    for entry in await drive.work("again"):
        assert (await drive.decide(entry, FINISH)).verdict == "done"
    await drive.mail()

    # a3 does not fit any more, a4 is new: the legs stay those of the fan-out.
    await drive.backend.open_inbox(0, "a4")
    plans = (Plan("deliver", "a4"), Plan("deliver", "a2"), Plan("deliver", AGENT))
    _, result = await drive.send(*plans, msg_id=msg_id, scope="all", round=2)
    assert (result.verdict, result.known) == ("done", "")
    assert (await drive.head(msg_id)).open == 1
    assert [len(await drive.inbox(agent)) for agent in (AGENT, "a2", "a3", "a4")] == [0, 1, 0, 0]
    mail = await drive.receipts()
    assert [(each["leg"], each["code"], each["round"], each["stored"]) for each in mail] == [
        (2, "agent.lost", 2, False),
        (0, "ok", 2, True),
    ]
    (taken,) = await drive.take(agent="a2")
    assert (taken.leg, taken.attempt) == (1, 1)
    assert await drive.settle_as("a2", taken, success("2")) == "done"
    assert (await drive.receipt())["round"] == 2
    assert await drive.place.due() == {}


async def test_a_cancelled_message_is_not_run_again(drive: Drive) -> None:
    msg_id = await drive.sent()
    await drive.backend.cancel(0, msg_id, "sender-1", 1, 60_000)
    assert (await drive.send(msg_id=msg_id, round=2))[1].known == "duplicate"
    assert await drive.place.type_of(KEYS.mail(0, BOX)) == "stream"


async def test_a_broadcast_that_found_nobody_is_fanned_out_anew(drive: Drive) -> None:
    nobody = Plan("finish", answer=retryable("route.no_candidate"))
    msg_id = await drive.sent(nobody, scope="all")
    assert (await drive.receipt())["leg"] == 0
    await drive.backend.open_inbox(0, "a2")
    _, result = await drive.send(TO_AGENT, Plan("deliver", "a2"), msg_id=msg_id, scope="all", round=2)
    assert (result.verdict, result.known, len(result.hands)) == ("done", "", 2)
    head = await drive.head(msg_id)
    assert (head.legs, head.open, head.round) == (2, 2, 2)
    assert [(await drive.leg(msg_id, number)).agent for number in (0, 1)] == [AGENT, "a2"]
    assert await drive.receipts() == []
    for agent in (AGENT, "a2"):
        (taken,) = await drive.take(agent=agent)
        assert await drive.settle_as(agent, taken, success()) == "done"
    assert {each["round"] for each in await drive.receipts()} == {2}


# ---------------------------------------------------------------- a cancel that comes before its round


async def stop(drive: Drive, msg_id: str, round_: int, sender: str = "sender-1", tomb_ms: int = 0) -> CancelResult:
    return await drive.backend.cancel(0, msg_id, sender, round_, tomb_ms)


async def test_a_cancel_that_overtakes_the_send_of_its_round_answers_it(drive: Drive) -> None:
    msg_id = await ended(drive)
    assert await stop(drive, msg_id, 2) == CancelResult("tombstone", 0)
    assert await stop(drive, msg_id, 2) == CancelResult("tombstone", 0)
    await drive.backend.keep_mailbox("second", [0])
    _, result = await drive.send(msg_id=msg_id, round=2, reply_to="second")
    assert (result.verdict, result.known) == ("done", "tombstone")
    receipt = await drive.receipt("second")
    told = (receipt["status"], receipt["code"], receipt["round"], receipt["attempts"], receipt["stored"])
    assert told == ("failed", "cancelled", 2, 0, False)
    assert await drive.inbox() == []
    assert await drive.place.due() == {}
    assert await drive.place.type_of(KEYS.envelope(0, msg_id)) == "none"
    assert (await stop(drive, msg_id, 2)).what == "ended"
    assert (await drive.send(msg_id=msg_id, round=3))[1].known == "duplicate"  # as after any tombstone


async def test_a_lower_round_than_the_cancelled_one_is_answered_and_a_greater_one_runs(drive: Drive) -> None:
    lower, greater = await ended(drive), await ended(drive)
    for msg_id in (lower, greater):
        assert (await stop(drive, msg_id, 3)).what == "tombstone"
        assert (await stop(drive, msg_id, 2)).what == "tombstone"  # takes nothing back
    assert (await drive.send(msg_id=lower, round=2))[1].known == "tombstone"
    assert (await drive.send(msg_id=greater, round=4))[1].known == ""
    assert (await drive.taken()).msg_id == greater
    assert (await drive.head(greater)).stopped == 0


async def test_a_cancel_of_the_ended_round_and_of_what_cannot_run_again_finds_it_ended(drive: Drive) -> None:
    msg_id = await ended(drive)
    assert await stop(drive, msg_id, 1) == CancelResult("ended", 0)
    assert (await drive.send(msg_id=msg_id, round=2))[1].known == ""
    assert (await drive.taken()).msg_id == msg_id
    for answer in (success(), failure()):
        taken = await drive.running()
        await drive.settle(taken, answer)
        assert await stop(drive, taken.msg_id, 2) == CancelResult("ended", 0)


async def test_a_stranger_stops_no_round(drive: Drive) -> None:
    msg_id = await ended(drive)
    assert await stop(drive, msg_id, 2, "sender-2") == CancelResult("denied", 0)
    assert (await drive.send(msg_id=msg_id, round=2))[1].known == ""


async def test_a_cancelled_round_is_known_as_long_as_a_tombstone(drive: Drive) -> None:
    short, long = await ended(drive, total_ms=1_000), await ended(drive, total_ms=1_000)
    before = await drive.place.ttl_ms(KEYS.message(0, short))
    await stop(drive, short, 2)
    await stop(drive, long, 2, tomb_ms=300_000)
    await stop(drive, long, 2)
    assert before - 5_000 < await drive.place.ttl_ms(KEYS.message(0, short)) <= before + 5_000
    assert 295_000 < await drive.place.ttl_ms(KEYS.message(0, long)) <= 300_000


async def test_of_a_broadcast_a_cancel_ends_the_open_legs_and_stops_what_has_ended_retryable(drive: Drive) -> None:
    for agent in ("a2", "a3"):
        await drive.backend.open_inbox(0, agent)
    three = (Plan("deliver", AGENT), Plan("deliver", "a2"), Plan("deliver", "a3"))
    msg_id = await drive.sent(*three, scope="all")
    for agent, answer in ((AGENT, success()), ("a2", retryable())):
        (taken,) = await drive.take(agent=agent)
        assert await drive.settle_as(agent, taken, answer) == "done"
    assert (await drive.decide(await drive.asked_again(), FINISH)).verdict == "done"
    await drive.mail()
    assert await stop(drive, msg_id, 2) == CancelResult("cancelled", 1)
    assert [(each["leg"], each["code"]) for each in await drive.receipts()] == [(2, "cancelled")]
    _, result = await drive.send(*three, msg_id=msg_id, scope="all", round=2)
    assert (result.verdict, result.known) == ("done", "tombstone")
    assert [len(await drive.inbox(agent)) for agent in (AGENT, "a2", "a3")] == [0, 0, 0]
    told = [(each["leg"], each["code"], each["target_agent"], each["stored"]) for each in await drive.receipts()]
    assert told == [
        (1, "cancelled", "a2", False),
        (0, "ok", AGENT, True),
        (2, "cancelled", "a3", True),
    ]
    assert (await drive.head(msg_id)).open == 0
    assert await drive.place.due() == {}


@pytest.mark.parametrize("why", ["conflict", "overloaded"])
async def test_who_is_refused_in_a_later_round_is_answered_in_it(drive: Drive, why: str) -> None:
    msg_id = await ended(drive)
    for name in ("b0", "b1", "b2", "b3", "b4"):
        await drive.backend.keep_mailbox(name, [0])
        await drive.mail(name)
        if why == "overloaded" and name != "b4":
            await drive.sent(msg_id=msg_id, round=2, reply_to=name)
    content = "0" * 16 if why == "conflict" else "f" * 16
    _, result = await drive.send(msg_id=msg_id, round=2, reply_to="b4", fingerprint=content)
    assert result.known == why
    receipt = await drive.receipt("b4")
    assert (receipt["round"], receipt["msg_id"]) == (2, msg_id)
    await drive.backend.cancel(0, msg_id, "sender-1", 2, 0)


async def test_what_fails_half_way_in_a_later_round_is_answered_in_it(drive: Drive) -> None:
    msg_id = await ended(drive)
    _, result = await drive.send(Plan("finish"), msg_id=msg_id, round=2)
    assert result.verdict == "error"
    receipt = await drive.receipt()
    assert (receipt["round"], receipt["code"]) == (2, "backend.unavailable")
    assert (await drive.head(msg_id)).round == 2
