"""answer: what was parked goes on where it can, burning nothing, with what was left of its total."""

import hashlib
import json

import pytest

from reach.backend.steps import Parking, Plan
from reach.envelope.ledger import Given, LegState
from reach.errors import BackendError
from tests.contract.asking import DAY_MS, PROMPT, SENDER, answer, later, notices, park, parked, resumed
from tests.contract.drive import AGENT, ENVELOPE, TO_AGENT, Drive, new_id, retryable, success
from tests.contract.places import KEYS

# ---------------------------------------------------------------- answer


async def test_the_answer_lets_it_go_on_and_burns_nothing(drive: Drive) -> None:
    taken = await drive.running()
    await park(drive, taken, state=b"[1]")
    await drive.mail()
    assert await answer(drive, taken, b'{"ok": true}') == "done"
    leg = await drive.leg(taken.msg_id)
    given = Given(hashlib.sha1(PROMPT).hexdigest(), '{"ok": true}', AGENT)
    assert (leg.state, leg.attempt, leg.wait_ms, leg.prompt) == (LegState.RETURNED, 0, -1, "")
    assert (leg.answers, leg.saved, leg.history) == ((given,), "[1]", ())
    entry = await drive.asked_again()
    assert (entry.fields[b"m"], entry.fields[b"h"]) == (taken.msg_id.encode(), taken.hand.encode())
    (told,) = await notices(drive, "routed")
    assert (told["leg"], told["hand"]) == (0, taken.hand)
    assert 25_000 < told["left_ms"] <= 30_000
    assert await drive.place.ttl_ms(KEYS.message(0, taken.msg_id)) <= 90_000
    await drive.decide(entry, TO_AGENT)
    (again,) = (await drive.backend.take(0, AGENT, "i2", 1)).taken
    assert again.attempt == 1
    answers = [{"prompt": given.prompt, "value": {"ok": True}, "agent": AGENT}]
    assert json.loads(again.answers) == {"state": [1], "answers": answers}


async def test_a_first_run_has_no_answers(drive: Drive) -> None:
    assert (await drive.running()).answers == b""


async def test_answers_come_in_order_and_survive_a_retry(drive: Drive) -> None:
    first = await drive.running()
    await park(drive, first, state=b"1")
    second = await resumed(drive, first)
    await park(drive, second, instance="i2", prompt=b'"two"')
    await drive.mail()
    assert await answer(drive, second, b'"b"') == "done"
    await drive.decide(await drive.asked_again(), TO_AGENT)
    (third,) = (await drive.backend.take(0, AGENT, "i3", 1)).taken
    assert await drive.settle(third, retryable(), instance="i3") == "done"
    await drive.decide(await drive.asked_again(), TO_AGENT)
    (fourth,) = (await drive.backend.take(0, AGENT, "i3", 1)).taken
    assert fourth.attempt == 2
    told = json.loads(fourth.answers)
    assert ([row["value"] for row in told["answers"]], told["state"]) == ([True, "b"], 1)
    assert await drive.settle(fourth, success(), instance="i3") == "done"
    assert (await drive.receipt())["attempts"] == 2
    assert (await drive.leg(first.msg_id)).answers == ()


async def test_each_answer_says_which_agent_has_asked(drive: Drive) -> None:
    await drive.backend.open_inbox(0, "a2")
    first = await parked(drive)
    assert await answer(drive, first) == "done"
    await drive.decide(await drive.asked_again(), Plan("deliver", "a2"))
    (second,) = (await drive.backend.take(0, "a2", "i2", 1)).taken
    parking = Parking(second.msg_id, second.leg, second.hand, b'"two"', "i2")
    assert await drive.backend.park(0, "a2", parking) == "done"
    await drive.mail()
    assert await answer(drive, second, b"2") == "done"
    await drive.decide(await drive.asked_again(), TO_AGENT)
    (third,) = (await drive.backend.take(0, AGENT, "i3", 1)).taken
    told = json.loads(third.answers)["answers"]
    assert [(row["agent"], row["value"]) for row in told] == [(AGENT, True), ("a2", 2)]


async def test_a_question_is_answered_once(drive: Drive) -> None:
    taken = await parked(drive)
    assert await answer(drive, taken) == "done"
    assert await answer(drive, taken, b"false") == "stale"
    assert len(await drive.work("again")) == 1
    assert [one.value for one in (await drive.leg(taken.msg_id)).answers] == ["true"]


async def test_an_old_answer_is_not_taken_for_the_new_question(drive: Drive) -> None:
    first = await parked(drive)
    second = await resumed(drive, first)
    assert await park(drive, second, instance="i2", prompt=b'"really?"') == "done"
    assert await answer(drive, first) == "stale"
    assert (await drive.leg(first.msg_id)).state is LegState.PARKED
    assert await answer(drive, second) == "done"


async def test_only_its_sender_answers(drive: Drive) -> None:
    taken = await parked(drive)
    assert await answer(drive, taken, sender="sender-2") == "denied"
    assert (await drive.leg(taken.msg_id)).state is LegState.PARKED


async def test_what_asks_nothing_cannot_be_answered(drive: Drive) -> None:
    taken = await drive.running()
    assert await answer(drive, taken) == "stale"
    assert await drive.backend.answer(0, taken.msg_id, SENDER, 7, taken.hand, b"1") == "stale"
    assert await drive.backend.answer(0, new_id(), SENDER, 0, taken.hand, b"1") == "unknown"
    tomb = new_id()
    await drive.backend.cancel(0, tomb, SENDER, 1, 0)
    assert await drive.backend.answer(0, tomb, SENDER, 0, taken.hand, b"1") == "unknown"


async def test_after_the_answer_it_may_wait_with_all_that_is_left(drive: Drive) -> None:
    taken = await parked(drive, total_ms=3_600_000)
    await drive.place.pass_time(DAY_MS - 5_000)
    assert await answer(drive, taken) == "done"
    await drive.decide(await drive.asked_again(), Plan("delay", wait_ms=3_000_000))
    await drive.place.pass_time(2_999_000)
    record = await drive.backend.inspect(0, taken.msg_id, envelope=True)
    assert record is not None
    assert (record.legs[0].state, record.envelope) == (LegState.WAITING, ENVELOPE)


async def test_a_slower_agent_raises_what_is_left(drive: Drive) -> None:
    taken = await parked(drive)
    await later(drive, 100_000)
    assert await answer(drive, taken) == "done"
    before = await drive.leg(taken.msg_id)
    await drive.decide(await drive.asked_again(), TO_AGENT, processing_ms=60_000, total_ms=75_000)
    (again,) = (await drive.backend.take(0, AGENT, "i2", 1)).taken
    assert (again.processing_ms, again.total_at_ms) == (60_000, before.total_at_ms + 45_000)
    assert await drive.place.ttl_ms(KEYS.message(0, taken.msg_id)) > again.total_at_ms - again.now_ms + 100_000


# ---------------------------------------------------------------- a broadcast


async def test_each_leg_asks_for_itself(drive: Drive) -> None:
    await drive.backend.open_inbox(0, "a2")
    msg_id = await drive.sent(TO_AGENT, Plan("deliver", "a2"), scope="all")
    (one,) = (await drive.backend.take(0, AGENT, "i1", 1)).taken
    (two,) = (await drive.backend.take(0, "a2", "i2", 1)).taken
    assert await park(drive, one) == "done"
    assert await drive.backend.park(0, "a2", Parking(msg_id, 1, two.hand, b"2", "i2", open_ms=5_000)) == "done"
    assert [notice["leg"] for notice in await notices(drive)] == [0, 1]
    await later(drive, 40_000)  # the total of those that do not ask
    receipt = await drive.receipt()
    assert (receipt["leg"], receipt["code"], receipt["details"]["state"]) == (1, "timeout.total", "parked")
    assert await answer(drive, one) == "done"
    await drive.decide(await drive.asked_again(), TO_AGENT)
    (again,) = (await drive.backend.take(0, AGENT, "i1", 1)).taken
    assert (again.envelope, again.leg) == (ENVELOPE, 0)
    assert await drive.settle(again, success()) == "done"
    assert (await drive.receipt())["code"] == "ok"
    assert await drive.place.ttl_ms(KEYS.message(0, msg_id)) <= 60_000


async def test_a_large_one_keeps_its_bytes_where_they_are(drive: Drive) -> None:
    envelope = b'"' + b"e" * 70_000 + b'"'
    msg_id = await drive.sent(TO_AGENT, scope="all", envelope=envelope)
    (taken,) = (await drive.backend.take(0, AGENT, "i1", 1)).taken
    assert await park(drive, taken) == "done"
    assert await drive.place.ttl_ms(KEYS.envelope(0, msg_id)) > DAY_MS
    await later(drive, 700_000)
    again = await resumed(drive, taken)
    assert again.envelope == envelope


# ---------------------------------------------------------------- what is no question

JUNK = (b"", b" ", b"{", b"1 2", b"nope", b'"\xff"', b'"\xed\xa0\x80"', b'"' + b"x" * 65_536 + b'"')


@pytest.mark.parametrize("junk", JUNK, ids=lambda junk: repr(junk[:8]))
async def test_junk_is_refused_and_changes_nothing(drive: Drive, junk: bytes) -> None:
    taken = await drive.running()
    with pytest.raises(BackendError, match="REACH_INPUT prompt"):
        await park(drive, taken, prompt=junk)
    if junk:
        with pytest.raises(BackendError, match="REACH_INPUT state"):
            await park(drive, taken, state=junk)
    assert (await drive.leg(taken.msg_id)).state is LegState.RUNNING
    assert await park(drive, taken) == "done"
    with pytest.raises(BackendError, match="REACH_INPUT value"):
        await answer(drive, taken, junk)
    assert (await drive.leg(taken.msg_id)).state is LegState.PARKED


@pytest.mark.parametrize("value", [b"null", b" [1, {}] ", b"-1.5e3", b'"\xf0\x9f\x98\x80\xe2\x82\xac\xc3\xa9"'])
async def test_any_json_value_is_one(drive: Drive, value: bytes) -> None:
    taken = await drive.running()
    assert await park(drive, taken, prompt=value, state=value) == "done"
    assert await answer(drive, taken, value) == "done"
    await drive.decide(await drive.asked_again(), TO_AGENT)
    (again,) = (await drive.backend.take(0, AGENT, "i2", 1)).taken
    told = json.loads(again.answers)
    assert (told["state"], told["answers"][0]["value"]) == (json.loads(value), json.loads(value))


async def test_a_message_keeps_no_more_answers_than_its_record_can_carry(drive: Drive) -> None:
    taken = await drive.running()
    large = b'"' + b"x" * 65_000 + b'"'
    for _ in range(5):
        assert await park(drive, taken, instance="") == "done"
        assert await answer(drive, taken, large) == "done"
        await drive.decide(await drive.asked_again(), TO_AGENT)
        (taken,) = (await drive.backend.take(0, AGENT, "i1", 1)).taken
    with pytest.raises(BackendError, match="REACH_INPUT a message asks at most"):
        await park(drive, taken)
    assert (await drive.leg(taken.msg_id)).state is LegState.RUNNING
