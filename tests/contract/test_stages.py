"""process_order: a stage begins when those before it are over and well; whoever ends the last leg of one calls the next."""

import pytest

from reach.backend.steps import Parking, Plan
from reach.envelope.ledger import Stage
from tests.contract.drive import ENVELOPE, failure, retryable, success
from tests.contract.places import KEYS, Place
from tests.contract.stage_moves import AGENTS, IN_ORDER, Order, plans

STAGE_FAILED = "stage.failed"


@pytest.fixture
async def order(place: Place) -> Order:
    return await (await Order.start(place)).ready()


async def test_only_the_first_stage_is_handed_over(order: Order) -> None:
    msg_id = await order.in_order()
    assert await order.states(msg_id) == "qqhho"
    assert [len(await order.inbox(agent)) for agent in AGENTS] == [1, 1, 0, 0, 1]
    held = await order.leg(msg_id, 2)
    assert (held.agent, held.hand) == ("b1", "0")
    head = await order.head(msg_id)
    assert (head.open, head.legs, head.stages) == (4, 5, (Stage(0, 2, 2), Stage(2, 2, 2)))
    assert await order.bytes_of(msg_id, 2) == ENVELOPE


async def test_the_notice_tells_legs_and_stages(order: Order) -> None:
    await order.in_order()
    (notice,) = await order.notices()
    assert notice["stages"] == 2
    assert notice["legs"] == [
        {"leg": 0, "agent": "a1", "stage": 0},
        {"leg": 1, "agent": "a2", "stage": 0},
        {"leg": 2, "agent": "b1", "stage": 1},
        {"leg": 3, "agent": "b2", "stage": 1},
        {"leg": 4, "agent": "o1", "observed": True},
    ]


async def test_the_last_success_of_a_stage_calls_the_next(order: Order) -> None:
    msg_id = await order.in_order()
    await order.end("a1")
    assert await order.called() == []
    await order.end("a2")
    entry = await order.asked_again()
    assert (entry.fields[b"m"].decode(), entry.fields[b"l"], entry.fields[b"h"]) == (msg_id, b"2", b"0")
    result = await order.released(entry)
    assert (result.verdict, len(result.hands)) == ("done", 2)
    assert await order.states(msg_id) == "ddqqo"
    await order.end("b1")
    await order.end("b2")
    assert await order.codes() == {0: "ok", 1: "ok", 2: "ok", 3: "ok"}
    assert (await order.head(msg_id)).open == 0
    assert await order.place.due() == {}
    assert await order.place.type_of(KEYS.envelope(0, msg_id)) == "none"


async def test_a_forged_again_releases_nothing(order: Order) -> None:
    msg_id = await order.in_order()
    await order.end("a1")
    await order.place.append(KEYS.again(0), {"m": msg_id.encode(), "l": b"2", "h": b"0"})
    result = await order.released(await order.asked_again())
    assert (result.verdict, result.known) == ("done", "silent")
    assert await order.states(msg_id) == "dqhho"


async def test_an_again_of_another_hand_releases_nothing(order: Order) -> None:
    msg_id = await order.in_order()
    await order.end("a1")
    await order.end("a2")
    await order.work("again")
    await order.place.append(KEYS.again(0), {"m": msg_id.encode(), "l": b"2", "h": b"7-7"})
    assert (await order.released(await order.asked_again())).known == "silent"
    assert await order.states(msg_id) == "ddhho"


async def test_a_doubled_again_hands_over_once(order: Order) -> None:
    msg_id = await order.in_order()
    await order.end("a1")
    await order.end("a2")
    await order.place.append(KEYS.again(0), {"m": msg_id.encode(), "l": b"2", "h": b"0"})
    first, second = await order.work("again")
    assert (await order.released(first)).hands
    assert (await order.released(second)).known == "silent"
    assert [len(await order.inbox(agent)) for agent in ("b1", "b2")] == [1, 1]


async def test_a_lost_again_is_made_up_for(order: Order) -> None:
    msg_id = await order.in_order()
    await order.end("a1")
    await order.end("a2")
    (entry,) = await order.work("again")
    await order.backend.finish_work(0, [entry])
    await order.live(3_100)
    assert (await order.released(await order.asked_again())).verdict == "done"
    assert await order.states(msg_id) == "ddqqo"


async def test_nobody_is_asked_about_a_stage_that_may_not_begin(order: Order) -> None:
    await order.past_grace()
    msg_id = await order.in_order(total_ms=60_000)
    taken = [await order.one(agent) for agent in ("a1", "a2")]
    for _ in range(4):
        await order.place.pass_time(4_000)
        for agent, each in zip(("a1", "a2"), taken, strict=True):
            await order.backend.renew(0, agent, "i1", {"normal": [each.hand]})
            await order.backend.progress(0, msg_id, each.leg, each.hand, None)
        await order.backend.due(0)
    assert await order.called() == []
    assert await order.states(msg_id) == "rrhho"


async def test_a_stage_that_fails_ends_those_behind_it(order: Order) -> None:
    msg_id = await order.in_order()
    await order.end("a1", failure())
    assert await order.states(msg_id) == "dqhho"
    await order.end("a2")
    assert await order.states(msg_id) == "ddddo"
    receipts = {receipt["leg"]: receipt for receipt in await order.receipts()}
    assert [receipts[leg]["code"] for leg in range(4)] == ["handler.rejected", "ok", STAGE_FAILED, STAGE_FAILED]
    assert (receipts[2]["status"], receipts[2]["details"]) == ("failed", {"state": "held", "stage": 0})
    assert (receipts[2]["target_agent"], receipts[2]["attempts"]) == ("b1", 0)
    assert await order.called() == []
    assert (await order.head(msg_id)).open == 0
    assert await order.place.due() == {}
    assert await order.place.type_of(KEYS.envelope(0, msg_id)) == "none"


async def test_a_policy_may_go_on(order: Order) -> None:
    msg_id = await order.in_order(goes_on=True)
    await order.end("a1", failure())
    await order.end("a2")
    await order.released(await order.asked_again())
    assert await order.states(msg_id) == "ddqqo"


async def test_a_retry_keeps_the_next_stage_waiting(order: Order) -> None:
    msg_id = await order.in_order()
    await order.end("a1", retryable())
    await order.end("a2")
    (entry,) = await order.work("again")
    assert entry.fields[b"l"] == b"0"
    await order.decide(entry, Plan("deliver", "a1"))
    assert await order.states(msg_id) == "qdhho"
    await order.end("a1")
    assert await order.called() == [2]


async def test_a_lost_holder_keeps_the_next_stage_waiting(order: Order) -> None:
    await order.past_grace()
    msg_id = await order.in_order(total_ms=60_000)
    await order.end("a2")
    await order.one("a1")
    await order.live(17_000)
    (entry,) = await order.work("again")
    assert entry.fields[b"l"] == b"0"
    await order.decide(entry, Plan("deliver", "a1"))
    await order.end("a1")
    await order.released(await order.asked_again())
    assert await order.states(msg_id) == "ddqqo"


async def test_a_closed_inbox_fails_its_stage_when_nobody_takes_its_work(order: Order) -> None:
    msg_id = await order.in_order()
    await order.end("a2")
    await order.backend.close_inbox(0, "a1")
    (entry,) = await order.work("again")
    await order.decide(entry, Plan("finish", "a1", answer=failure("agent.lost")))
    assert await order.codes() == {1: "ok", 0: "agent.lost", 2: STAGE_FAILED, 3: STAGE_FAILED}
    assert await order.states(msg_id) == "ddddo"


async def test_a_closed_inbox_whose_bytes_are_lost_fails_its_stage(order: Order) -> None:
    msg_id = await order.in_order(*plans("deliver", "hold"), stages=(Stage(0, 1, 1), Stage(1, 1, 1)))
    ((hand, _),) = await order.inbox("a1")
    await order.place.delete(KEYS.envelope(0, msg_id))
    await order.place.remove(KEYS.inbox(0, "a1", "normal"), hand)
    await order.place.append(
        KEYS.inbox(0, "a1", "normal"), {"m": msg_id.encode(), "l": b"0"}, entry_id=f"{int(hand.split('-')[0])}-99"
    )
    await order.live(5_000)
    assert await order.codes() == {0: "backend.unavailable", 1: STAGE_FAILED}


async def test_when_take_ends_the_last_of_a_stage_those_behind_end(order: Order) -> None:
    msg_id = await order.in_order(ttl_ms=2_000)
    await order.end("a2")
    await order.place.pass_time(2_100)
    assert await order.take(agent="a1") == []
    assert await order.codes() == {1: "ok", 0: "ttl.expired", 2: STAGE_FAILED, 3: STAGE_FAILED}
    assert await order.states(msg_id) == "edddo"


async def test_when_due_ends_the_last_of_a_stage_those_behind_end(order: Order) -> None:
    await order.past_grace()
    msg_id = await order.in_order(ttl_ms=2_000)
    await order.end("a2")
    await order.live(2_500)
    assert await order.codes() == {1: "ok", 0: "ttl.expired", 2: STAGE_FAILED, 3: STAGE_FAILED}
    assert await order.states(msg_id) == "edddo"
    assert await order.place.due() == {}


async def test_the_ttl_does_not_bound_a_later_stage(order: Order) -> None:
    await order.past_grace()
    msg_id = await order.in_order(ttl_ms=2_000, total_ms=60_000)
    taken = [await order.one(agent) for agent in ("a1", "a2")]
    await order.live(2_500)
    for agent, each in zip(("a1", "a2"), taken, strict=True):
        await order.settle_as(agent, each, success())
    await order.released(await order.asked_again())
    await order.end("b1")
    await order.end("b2")
    assert await order.states(msg_id) == "ddddo"
    assert set((await order.codes()).values()) == {"ok"}


async def test_inboxes_that_are_gone_at_the_fan_out_fail_the_stage(order: Order) -> None:
    gone = (Plan("deliver", "x1"), Plan("deliver", "x2"), *IN_ORDER[2:])
    msg_id = await order.in_order(*gone)
    assert await order.codes() == {0: "agent.lost", 1: "agent.lost", 2: STAGE_FAILED, 3: STAGE_FAILED}
    assert await order.states(msg_id) == "ddddo"
    assert await order.place.due() == {}


async def test_past_inboxes_that_are_gone_a_policy_goes_on(order: Order) -> None:
    gone = (Plan("deliver", "x1"), Plan("deliver", "x2"), *IN_ORDER[2:])
    msg_id = await order.in_order(*gone, goes_on=True)
    assert await order.states(msg_id) == "ddwwo"
    assert await order.codes() == {0: "agent.lost", 1: "agent.lost"}
    await order.live(100)
    for entry in await order.work("again"):
        number = int(entry.fields[b"l"])
        await order.decide(entry, Plan("deliver", AGENTS[number]))
    assert await order.states(msg_id) == "ddqqo"


async def test_inboxes_that_are_gone_when_their_stage_begins_fail_it(order: Order) -> None:
    msg_id = await order.in_order(
        *plans("deliver", "hold", "hold"), stages=(Stage(0, 1, 1), Stage(1, 1, 1), Stage(2, 1, 1))
    )
    await order.end("a1")
    await order.backend.close_inbox(0, "a2")
    await order.released(await order.asked_again())
    assert await order.codes() == {0: "ok", 1: "agent.lost", 2: STAGE_FAILED}
    assert await order.states(msg_id) == "ddd"


async def test_a_leg_of_a_released_stage_waits_where_its_inbox_is_full(order: Order) -> None:
    msg_id = await order.in_order()
    await order.sent(Plan("deliver", "b1"))
    await order.end("a1")
    await order.end("a2")
    await order.released(await order.asked_again(), plan=Plan("deliver", "b1", max_inbox=1))
    assert await order.states(msg_id) == "ddwqo"
    await order.end("b1")  # which calls it at once
    await order.decide(await order.asked_again(), Plan("deliver", "b1"))
    await order.end("b1")
    await order.end("b2")
    assert await order.states(msg_id) == "ddddo"


async def test_what_has_no_plan_is_called_once_more(order: Order) -> None:
    msg_id = await order.in_order()
    await order.end("a1")
    await order.end("a2")
    await order.released(await order.asked_again(), others={})
    assert await order.states(msg_id) == "ddqho"
    await order.released(await order.asked_again())
    assert await order.states(msg_id) == "ddqqo"


async def test_a_question_in_a_stage_stops_the_clock_of_those_behind_it(order: Order) -> None:
    await order.past_grace()
    msg_id = await order.in_order()
    await order.end("a2")
    taken = await order.one("a1")
    await order.backend.park(0, "a1", Parking(msg_id, 0, taken.hand, b'"go?"', "i1", open_ms=600_000))
    for _ in range(3):
        await order.live(30_000)
        await order.keep_box()
    assert await order.states(msg_id) == "pdhho"
    assert await order.called() == []
    await order.mail()
    await order.backend.answer(0, msg_id, "sender-1", 0, taken.hand, b'"yes"')
    await order.decide(await order.asked_again(), Plan("deliver", "a1"))
    await order.end("a1")
    await order.released(await order.asked_again())
    assert await order.states(msg_id) == "ddqqo"
    ends_at_ms = (await order.leg(msg_id, 2)).total_at_ms
    assert ends_at_ms == (await order.leg(msg_id, 0)).total_at_ms
    await order.end("b1")
    await order.live(31_000)
    assert await order.codes() == {0: "ok", 2: "ok", 3: "timeout.total"}


async def test_a_question_that_nobody_answers_fails_its_stage(order: Order) -> None:
    await order.past_grace()
    msg_id = await order.in_order()
    await order.end("a2")
    taken = await order.one("a1")
    await order.backend.park(0, "a1", Parking(msg_id, 0, taken.hand, b'"go?"', "i1", open_ms=40_000))
    await order.keep_box()
    await order.live(41_000)
    assert await order.codes() == {1: "ok", 0: "timeout.total", 2: STAGE_FAILED, 3: STAGE_FAILED}


async def test_an_empty_stage_fails_when_it_is_reached(order: Order) -> None:
    stages = (Stage(0, 1, 1), Stage(1, 0, 0), Stage(1, 1, 1))
    msg_id = await order.in_order(*plans("deliver", "hold"), stages=stages)
    assert await order.states(msg_id) == "qh"
    await order.end("a1")
    receipts = {receipt["leg"]: receipt for receipt in await order.receipts()}
    assert (receipts[1]["code"], receipts[1]["details"]) == (STAGE_FAILED, {"state": "held", "stage": 1, "empty": True})
    assert (await order.head(msg_id)).open == 0


async def test_past_an_empty_stage_a_policy_goes_on(order: Order) -> None:
    stages = (Stage(0, 1, 1), Stage(1, 0, 0), Stage(1, 1, 1))
    msg_id = await order.in_order(*plans("deliver", "hold"), stages=stages, goes_on=True)
    await order.end("a1")
    await order.released(await order.asked_again())
    assert await order.states(msg_id) == "dq"


async def test_a_cancel_ends_held_legs_and_calls_nobody(order: Order) -> None:
    msg_id = await order.in_order()
    await order.end("a1")
    result = await order.backend.cancel(0, msg_id, "sender-1", 1, 0)
    assert (result.what, result.closed) == ("cancelled", 3)
    assert await order.codes() == {0: "ok", 1: "cancelled", 2: "cancelled", 3: "cancelled"}
    assert await order.called() == []
    assert await order.place.due() == {}


async def test_a_cancel_that_comes_first_shows_nobody_anything(order: Order) -> None:
    msg_id = "3f2b8a52-7c52-4f0b-9d9b-0a4a36f0c0b1"
    await order.backend.cancel(0, msg_id, "sender-1", 1, 0)
    _, result = await order.send(*IN_ORDER, msg_id=msg_id, scope="all", stages=(Stage(0, 2, 2), Stage(2, 2, 2)))
    assert result.known == "tombstone"
    assert await order.codes() == dict.fromkeys(range(4), "cancelled")
    assert [await order.inbox(agent) for agent in AGENTS] == [[], [], [], [], []]


async def test_the_end_of_total_ends_open_legs_and_calls_nobody(order: Order) -> None:
    await order.past_grace()
    msg_id = await order.in_order(goes_on=True)
    await order.end("a1")
    await order.live(31_000)
    assert await order.codes() == {0: "ok", **dict.fromkeys((1, 2, 3), "timeout.total")}
    assert set(await order.called()) == {1}  # which nobody has picked up
    assert await order.states(msg_id) == "deeeo"


async def test_a_result_past_total_calls_nobody(order: Order) -> None:
    msg_id = await order.in_order(goes_on=True)
    await order.end("a1")
    taken = await order.one("a2")
    await order.place.pass_time(30_100)
    assert await order.settle_as("a2", taken, success()) == "stale"
    assert await order.codes() == {0: "ok", 1: "timeout.total"}
    assert await order.called() == []
    assert await order.states(msg_id) == "dehho"
    await order.backend.due(0, msg_id)
    assert await order.codes() == {2: "timeout.total", 3: "timeout.total"}


async def test_a_duplicate_hears_of_the_stages_and_of_no_observed_leg(order: Order) -> None:
    msg_id = await order.in_order()
    await order.end("a1")
    await order.mail()
    _, result = await order.send(*IN_ORDER, msg_id=msg_id, scope="all", stages=(Stage(0, 2, 2), Stage(2, 2, 2)))
    assert result.known == "duplicate"
    mail = await order.mail()
    assert [entry.kind for entry in mail] == ["notice", "receipt"]
    assert await order.states(msg_id) == "dqhho"
