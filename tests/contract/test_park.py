"""park: a message that waits for its caller, held by nobody, its total standing still."""

import json

import pytest

from reach.backend.steps import Parking, Plan
from reach.envelope.ledger import LegState
from tests.contract.asking import DAY_MS, PROMPT, SENDER, answer, later, notices, park, parked, resumed
from tests.contract.drive import AGENT, BOX, ENVELOPE, TO_AGENT, Drive, retryable, success
from tests.contract.failing import OPENS, ended, is_open
from tests.contract.line_moves import LINE, agains, queue_up
from tests.contract.places import KEYS

# ---------------------------------------------------------------- park


async def test_it_gives_up_the_entry_and_keeps_bytes_and_state(drive: Drive) -> None:
    taken = await drive.running()
    assert await park(drive, taken, state=b'{"step":2}') == "done"
    leg = await drive.leg(taken.msg_id)
    assert (leg.state, leg.attempt, leg.prompt, leg.saved) == (LegState.PARKED, 0, PROMPT.decode(), '{"step":2}')
    assert await drive.inbox() == []
    assert await drive.place.pending(KEYS.inbox(0, AGENT, "normal"), "agent") == []
    record = await drive.backend.inspect(0, taken.msg_id, envelope=True)
    assert record is not None
    assert record.envelope == ENVELOPE
    assert await drive.place.type_of(KEYS.envelope(0, taken.msg_id)) == "string"
    assert await drive.backend.renew(0, AGENT, "i1", {"normal": [taken.hand]}) == set()


async def test_the_caller_is_told_what_is_asked(drive: Drive) -> None:
    taken = await parked(drive)
    (notice,) = await notices(drive)
    left_ms, open_ms = notice.pop("left_ms"), notice.pop("open_ms")
    assert 25_000 < left_ms <= 30_000
    assert DAY_MS - 5_000 < open_ms <= DAY_MS
    assert notice == {
        "notice": "input_required",
        "msg_id": taken.msg_id,
        "leg": 0,
        "round": 1,
        "hand": taken.hand,
        "agent": AGENT,
        "attempt": 1,
        "prompt": json.loads(PROMPT),
    }


async def test_again_with_the_same_hand_is_no_news(drive: Drive) -> None:
    taken = await parked(drive)
    await drive.mail()
    assert await park(drive, taken, prompt=b'"another"') == "done"
    assert (await drive.leg(taken.msg_id)).prompt == PROMPT.decode()
    assert await drive.mail() == []
    assert await answer(drive, taken) == "done"
    assert await park(drive, taken) == "done"  # its reply was lost, and the answer was quicker
    assert (await drive.leg(taken.msg_id)).state is LegState.RETURNED


@pytest.mark.parametrize("changes", [{"hand": "7-7"}, {"instance": "i2"}])
async def test_nobody_else_parks_it(drive: Drive, changes: dict[str, str]) -> None:
    taken = await drive.running()
    assert await park(drive, taken, **changes) == "stale"
    assert (await drive.leg(taken.msg_id)).state is LegState.RUNNING
    assert len(await drive.inbox()) == 1


async def test_an_old_hand_parks_nothing(drive: Drive) -> None:
    taken = await parked(drive)
    again = await resumed(drive, taken)
    assert again.hand != taken.hand
    assert await park(drive, taken) == "stale"
    assert (await drive.leg(taken.msg_id)).state is LegState.RUNNING


async def test_of_a_message_that_is_not_there_it_is_unknown(drive: Drive) -> None:
    taken = await drive.running()
    await drive.place.delete(KEYS.message(0, taken.msg_id))
    assert await park(drive, taken) == "unknown"
    assert await drive.inbox() == []


async def test_a_plain_reader_may_ask(drive: Drive) -> None:
    msg_id = await drive.sent()
    (hand,) = await drive.place.read_plain(KEYS.inbox(0, AGENT, "normal"), "agent", "plain")
    assert await drive.backend.park(0, AGENT, Parking(msg_id, 0, hand, PROMPT)) == "done"
    leg = await drive.leg(msg_id)
    assert (leg.state, leg.instance, leg.handed) == (LegState.PARKED, "plain", True)
    await later(drive, 40_000)  # no ttl ends it any more
    leg = await drive.leg(msg_id)
    assert (leg.state, await drive.place.due()) == (LegState.PARKED, {msg_id: leg.total_at_ms})


async def test_nothing_is_asked_after_the_total(drive: Drive) -> None:
    taken = await drive.running()
    await drive.place.pass_time(30_001)
    assert await park(drive, taken) == "stale"
    receipt = await drive.receipt()
    assert (receipt["code"], receipt["details"]["state"]) == ("timeout.total", "running")


async def test_one_whose_bytes_are_lost_ends(drive: Drive) -> None:
    taken = await drive.running()
    await drive.place.remove(KEYS.inbox(0, AGENT, "normal"), taken.hand)
    assert await park(drive, taken) == "stale"
    assert (await drive.receipt())["code"] == "backend.unavailable"


# ---------------------------------------------------------------- while it is parked


async def test_a_settle_and_a_sign_of_life_are_stale(drive: Drive) -> None:
    taken = await parked(drive)
    assert await drive.settle(taken, success()) == "stale"
    assert not await drive.backend.progress(0, taken.msg_id, 0, taken.hand, None)
    assert (await drive.leg(taken.msg_id)).state is LegState.PARKED
    assert await answer(drive, taken) == "done"
    assert await drive.settle(taken, success()) == "stale"  # nor is it taken for the repeat of a result
    assert (await drive.leg(taken.msg_id)).state is LegState.RETURNED


async def test_an_again_asks_for_nothing(drive: Drive) -> None:
    taken = await parked(drive)
    fields = {"m": taken.msg_id.encode(), "l": b"0", "h": taken.hand.encode()}
    await drive.place.append(KEYS.again(0), fields)
    result = await drive.decide(await drive.asked_again(), TO_AGENT)
    assert (result.verdict, result.known) == ("done", "silent")
    assert await drive.inbox() == []


async def test_its_total_stands_still(drive: Drive) -> None:
    taken = await parked(drive)
    await later(drive, 2 * 3_600_000)
    assert (await drive.leg(taken.msg_id)).state is LegState.PARKED
    again = await resumed(drive, taken)
    assert 25_000 < again.total_at_ms - again.now_ms <= 30_000
    await drive.place.pass_time(30_001)
    await drive.backend.due(0)
    assert (await drive.receipt())["code"] == "timeout.total"


async def test_what_is_left_is_less_each_time(drive: Drive) -> None:
    taken = await drive.running()
    await drive.place.pass_time(10_000)
    assert await park(drive, taken) == "done"
    await later(drive, 100_000)
    again = await resumed(drive, taken)
    assert 15_000 < again.total_at_ms - again.now_ms <= 20_000
    await drive.place.pass_time(10_000)
    assert await park(drive, again, instance="i2") == "done"
    assert 5_000 < (await drive.leg(taken.msg_id)).left_ms <= 10_000


async def test_due_asks_no_router_about_it(drive: Drive) -> None:
    taken = await drive.running()
    await park(drive, taken, open_ms=4 * DAY_MS)
    await drive.place.pass_time(
        -3_600_000
    )  # its moment is far ahead: after a step back of the clock every one is looked at
    await drive.backend.due(0)
    await later(drive, 3_700_000)
    assert await drive.work("again") == []
    assert (await drive.leg(taken.msg_id)).state is LegState.PARKED


async def test_a_question_that_nobody_answers_ends_it(drive: Drive) -> None:
    taken = await drive.running()
    await park(drive, taken, open_ms=60_000)
    await later(drive, 59_000)
    await drive.place.pass_time(1_001)
    (event,) = (await drive.backend.due(0)).events
    assert (event.what, event.code) == ("expired", "timeout.total")
    receipt = await drive.receipt()
    assert (receipt["status"], receipt["code"]) == ("retryable", "timeout.total")
    assert (receipt["details"]["state"], receipt["attempts"]) == ("parked", 1)
    assert await drive.place.due() == {}
    assert await drive.place.type_of(KEYS.envelope(0, taken.msg_id)) == "none"
    assert await drive.place.ttl_ms(KEYS.message(0, taken.msg_id)) <= 60_000  # from the end, and no longer


async def test_an_answer_that_comes_too_late_ends_it(drive: Drive) -> None:
    taken = await drive.running()
    await park(drive, taken, open_ms=60_000)
    await drive.backend.keep_mailbox(BOX, [0], DAY_MS)
    await drive.place.pass_time(60_001)
    assert await answer(drive, taken) == "stale"
    assert (await drive.receipt())["details"]["state"] == "parked"


async def test_a_callers_due_says_until_when_it_goes_on(drive: Drive) -> None:
    taken = await parked(drive)
    await later(drive, 40_000)
    report = await drive.backend.due(0, taken.msg_id)
    assert DAY_MS - 60_000 < report.deadline_at_ms - report.now_ms <= DAY_MS
    assert (await drive.leg(taken.msg_id)).state is LegState.PARKED


@pytest.mark.parametrize(("asked_ms", "open_ms"), [(0, DAY_MS), (5_000, 5_000), (100 * DAY_MS, 7 * DAY_MS)])
async def test_how_long_a_question_is_open(drive: Drive, asked_ms: int, open_ms: int) -> None:
    taken = await drive.running()
    await park(drive, taken, open_ms=asked_ms)
    (notice,) = await notices(drive)
    assert open_ms - 2_000 < notice["open_ms"] <= open_ms


async def test_everything_outlives_the_question(drive: Drive) -> None:
    taken = await drive.running()
    once = await drive.backend.once_take(0, taken.msg_id, 0, taken.hand, "book", "i1", 15_000)
    assert once.state == "mine"
    assert await drive.backend.once_end(0, taken.msg_id, "book", "i1", b"1")
    await park(drive, taken, guards=("book", "never made"))
    for key in (KEYS.message(0, taken.msg_id), KEYS.envelope(0, taken.msg_id)):
        assert await drive.place.ttl_ms(key) > DAY_MS + 60_000 + 25_000
    assert await drive.place.ttl_ms(KEYS.once(0, taken.msg_id, "book")) > DAY_MS + 60_000 + 25_000 + 600_000
    assert await drive.place.type_of(KEYS.once(0, taken.msg_id, "never made")) == "none"


async def test_cancel_ends_it(drive: Drive) -> None:
    taken = await parked(drive)
    assert (await drive.backend.cancel(0, taken.msg_id, SENDER, 1, 0)).what == "cancelled"
    receipt = await drive.receipt()
    assert (receipt["code"], receipt["details"]["state"], receipt["attempts"]) == ("cancelled", "parked", 1)
    assert await answer(drive, taken) == "stale"
    leg = await drive.leg(taken.msg_id)
    assert (leg.state, leg.prompt, leg.saved) == (LegState.CANCELLED, "", "")


async def test_an_agent_that_is_removed_changes_nothing(drive: Drive) -> None:
    taken = await parked(drive)
    assert await drive.backend.close_inbox(0, AGENT)
    assert (await drive.leg(taken.msg_id)).state is LegState.PARKED
    await drive.backend.open_inbox(0, "a2")
    assert await answer(drive, taken) == "done"
    await drive.decide(await drive.asked_again(), Plan("deliver", "a2"))
    (again,) = (await drive.backend.take(0, "a2", "i9", 1)).taken
    assert (again.envelope, again.attempt) == (ENVELOPE, 1)


async def test_a_duplicate_attaches_and_is_asked_too(drive: Drive) -> None:
    taken = await parked(drive)
    await drive.keep_box("late")
    _, result = await drive.send(msg_id=taken.msg_id, reply_to="late")
    assert result.known == "duplicate"
    (notice,) = await notices(drive, box="late")
    assert (notice["hand"], notice["prompt"]) == (taken.hand, json.loads(PROMPT))
    await resumed(drive, taken)
    _, result = await drive.send(msg_id=taken.msg_id, reply_to="late")
    assert await notices(drive, box="late") == []


async def test_a_parked_head_stays_head(drive: Drive) -> None:
    first, second = await queue_up(drive, 2)
    taken = await drive.taken()
    assert await park(drive, taken) == "done"
    assert await drive.place.members(LINE) == [first, second]
    assert await drive.place.ttl_ms(LINE) > DAY_MS
    assert await drive.take() == []
    assert await answer(drive, taken) == "done"
    await agains(drive)
    again = await drive.taken()
    assert again.msg_id == first
    assert await park(drive, again) == "done"
    assert (await drive.backend.cancel(0, first, SENDER, 1, 0)).what == "cancelled"
    await agains(drive)
    assert (await drive.taken()).msg_id == second


async def test_an_agent_that_asks_is_well(drive: Drive) -> None:
    for _ in range(OPENS - 1):
        await ended(drive, retryable())
    taken = await drive.running()
    assert await park(drive, taken) == "done"
    await ended(drive, retryable())
    assert not await is_open(drive)
