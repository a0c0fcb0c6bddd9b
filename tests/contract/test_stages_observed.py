"""Who is in no stage of a process_order is shown a copy; and what a new round of stages opens."""

import pytest

from reach.backend.steps import Plan, Settlement, WorkEntry
from reach.envelope.ledger import LegState, Stage
from tests.contract.drive import ENVELOPE, failure, retryable, success
from tests.contract.places import KEYS, Place
from tests.contract.stage_moves import IN_ORDER, Order

LARGE = b'{"body":"' + b"x" * 30_000 + b'"}'


@pytest.fixture
async def order(place: Place) -> Order:
    return await (await Order.start(place)).ready()


# -------------------------------------------------------------------- who only observes


async def test_who_is_in_no_stage_is_shown_a_copy_and_answers_nothing(order: Order) -> None:
    msg_id = await order.in_order()
    taken = await order.one("o1")
    assert (taken.observed, taken.msg_id, taken.leg, taken.attempt, taken.envelope) == (True, msg_id, 4, 0, ENVELOPE)
    assert await order.inbox("o1") == []
    assert await order.place.pending(KEYS.inbox(0, "o1", "normal"), "agent") == []
    assert await order.settle_as("o1", taken, success()) == "stale"
    assert await order.receipts() == []
    record = await order.backend.inspect(0, msg_id)
    assert record is not None
    assert (record.legs[4].state, 4 in record.receipts) == (LegState.OBSERVED, False)


async def test_a_copy_is_shown_once(order: Order) -> None:
    await order.in_order()
    await order.one("o1")
    assert (await order.backend.take(0, "o1", "i1", 10, held=[])).taken == ()


async def test_a_copy_is_not_shown_past_the_total(order: Order) -> None:
    await order.in_order()
    await order.place.pass_time(30_100)
    assert await order.take(agent="o1") == []
    assert await order.inbox("o1") == []


async def test_a_full_inbox_is_shown_nothing(order: Order) -> None:
    await order.sent(Plan("deliver", "o1"))
    msg_id = await order.in_order(*IN_ORDER[:4], Plan("observe", "o1", max_inbox=1))
    assert len(await order.inbox("o1")) == 1
    assert await order.states(msg_id) == "qqhho"


async def test_a_reader_without_scripts_that_answers_a_copy_is_rid_of_it(order: Order) -> None:
    msg_id = await order.in_order()
    key = KEYS.inbox(0, "o1", "normal")
    ((hand, fields),) = await order.inbox("o1")
    assert (fields[b"o"], fields[b"a"], fields[b"e"]) == (b"1", b"0", ENVELOPE)
    await order.place.read_plain(key, "agent", "plain")
    (verdict,) = await order.backend.settle(0, "o1", [Settlement(msg_id, 4, hand, success())])
    assert verdict == "stale"
    assert await order.inbox("o1") == []
    assert await order.place.pending(key, "agent") == []


async def test_a_large_copy_is_there_when_the_message_has_ended(order: Order) -> None:
    msg_id = await order.in_order(envelope=LARGE)
    await order.end("a1", failure())
    await order.end("a2")
    assert (await order.head(msg_id)).open == 0
    ttl_ms = await order.place.ttl_ms(KEYS.envelope(0, msg_id))
    assert 0 < ttl_ms <= 30_000
    assert (await order.one("o1")).envelope == LARGE


async def test_a_closed_inbox_forgets_its_copies(order: Order) -> None:
    await order.in_order()
    assert await order.backend.close_inbox(0, "o1")
    assert await order.called() == []


# -------------------------------------------------------------------- rounds


async def test_a_new_round_opens_what_was_retryable_and_what_stood_behind_it(order: Order) -> None:
    msg_id = await order.in_order()
    await order.end("a1")
    entry = await _returned(order, "a2")
    await order.decide(entry, Plan("finish", "a2", answer=retryable()))
    assert await order.states(msg_id) == "ddddo"
    await order.mail()
    await order.in_order(msg_id=msg_id, round=2)
    assert await order.states(msg_id) == "dqhho"
    head = await order.head(msg_id)
    assert (head.open, head.stages) == (3, (Stage(0, 2, 1), Stage(2, 2, 2)))
    assert (await order.leg(msg_id, 2)).hand == "0-2"
    await order.mail()
    await order.end("a2")
    await order.released(await order.asked_again())
    await order.end("b1")
    await order.end("b2")
    assert await order.codes() == {1: "ok", 2: "ok", 3: "ok"}


async def test_a_new_round_of_a_later_stage_goes_at_once(order: Order) -> None:
    msg_id = await order.in_order()
    await order.end("a1")
    await order.end("a2")
    await order.released(await order.asked_again())
    await order.end("b1")
    entry = await _returned(order, "b2")
    await order.decide(entry, Plan("finish", "b2", answer=retryable()))
    await order.in_order(msg_id=msg_id, round=2)
    # The stage is free: who would have waited for it asks at once.
    assert await order.states(msg_id) == "dddwo"
    await order.live(100)
    await order.decide(await order.asked_again(), Plan("deliver", "b2"))
    await order.end("b2")
    assert (await order.head(msg_id)).open == 0


async def test_under_another_policy_a_new_round_leaves_what_has_ended_alone(order: Order) -> None:
    stages = (Stage(0, 1, 1), Stage(1, 1, 1), Stage(2, 1, 1))
    in_order = (Plan("deliver", "a1"), Plan("hold", "a2"), Plan("hold", "b1"))
    msg_id = await order.in_order(*in_order, stages=stages, goes_on=True)
    await order.decide(await _returned(order, "a1"), Plan("finish", "a1", answer=retryable()))
    await order.released(await order.asked_again())
    await order.end("a2")
    await order.released(await order.asked_again())
    await order.decide(await _returned(order, "b1"), Plan("finish", "b1", answer=retryable()))
    await order.mail()
    await order.in_order(*in_order, stages=stages, msg_id=msg_id, round=2)
    assert await order.states(msg_id) == "qdh"
    await order.end("a1", failure())
    fresh = [receipt for receipt in await order.receipts() if not receipt["stored"]]
    assert [(receipt["leg"], receipt["code"]) for receipt in fresh] == [(0, "handler.rejected"), (2, "stage.failed")]
    assert (await order.leg(msg_id, 1)).code == "ok"


async def test_a_new_round_opens_nothing_behind_a_stage_that_has_failed_for_good(order: Order) -> None:
    stages = (Stage(0, 1, 1), Stage(1, 1, 1))
    in_order = (Plan("deliver", "a1"), Plan("hold", "a2"))
    msg_id = await order.in_order(*in_order, stages=stages, goes_on=True)
    await order.end("a1", failure())
    await order.released(await order.asked_again())
    await order.decide(await _returned(order, "a2"), Plan("finish", "a2", answer=retryable()))
    await order.mail()
    await order.in_order(*in_order, stages=stages, msg_id=msg_id, round=2)
    fresh = [receipt for receipt in await order.receipts() if not receipt["stored"]]
    assert [(receipt["leg"], receipt["code"], receipt["round"]) for receipt in fresh] == [(1, "stage.failed", 2)]
    assert (await order.head(msg_id)).open == 0
    assert await order.place.due() == {}


async def test_a_cancel_of_the_next_round_ends_what_it_would_open(order: Order) -> None:
    msg_id = await order.in_order()
    await order.end("a1")
    entry = await _returned(order, "a2")
    await order.decide(entry, Plan("finish", "a2", answer=retryable()))
    await order.backend.cancel(0, msg_id, "sender-1", 2, 0)
    await order.mail()
    await order.in_order(msg_id=msg_id, round=2)
    assert {leg: code for leg, code in (await order.codes()).items() if leg} == dict.fromkeys((1, 2, 3), "cancelled")
    assert await order.called() == []


async def _returned(order: Order, agent: str) -> WorkEntry:
    """The agent's run ends retryable; the entry that asks what is to become of it."""
    await order.end(agent, retryable())
    return await order.asked_again()
