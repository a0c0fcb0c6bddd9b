"""What nobody records who was there is told to the routers: an entry of `receipts` for each end or run that its caller is not told of."""

import json
from typing import Any

from reach.backend.steps import Parking, Plan, Settlement
from reach.envelope.ledger import Stage
from tests.contract.drive import AGENT, TO_AGENT, Drive, failure, new_id, retryable, success
from tests.contract.line_moves import LINE, send_to
from tests.contract.places import KEYS
from tests.contract.test_best import asked, kept, sure


async def told(drive: Drive) -> list[dict[str, Any]]:
    """What each entry says, with the leg and the hand; `at` and `began` are looked at, and left out."""
    found = []
    for _, fields in await drive.place.entries(KEYS.receipts(0)):
        assert fields.keys() == {b"m", b"l", b"h", b"t"}
        said = json.loads(fields[b"t"])
        now_us = await drive.backend.now_ms() * 1000
        assert 0 <= now_us - (said.pop("at") // 1000 * 1000) < 60_000_000
        found.append({"leg": int(fields[b"l"]), "hand": fields[b"h"].decode(), **said})
    return found


def end_of(code: str, **more: Any) -> dict[str, Any]:
    """The end of the first leg, while i1 of a1 had it."""
    made = {"leg": 0, "round": 1, "attempt": 1, "agent": AGENT, "instance": "i1", "code": code, "status": "retryable"}
    return made | {"ended": True} | more


async def test_a_cancel_tells_of_the_run_that_it_ends(drive: Drive) -> None:
    taken = await drive.running()
    await drive.backend.cancel(0, taken.msg_id, "sender-1", 1, 0)
    assert await told(drive) == [end_of("cancelled", status="failed", hand=taken.hand)]
    ((_, fields),) = await drive.place.entries(KEYS.receipts(0))
    assert fields[b"m"].decode() == taken.msg_id
    await drive.backend.cancel(0, taken.msg_id, "sender-1", 1, 0)
    assert len(await told(drive)) == 1, "once"


async def test_a_cancel_of_what_nobody_has_had_tells_of_no_run(drive: Drive) -> None:
    msg_id = await drive.sent(Plan("delay", wait_ms=60_000))
    await drive.backend.cancel(0, msg_id, "sender-1", 1, 0)
    nobody = {"attempt": 0, "agent": None, "instance": None, "hand": "0"}
    assert await told(drive) == [end_of("cancelled", status="failed", **nobody)]


async def test_a_cancel_of_what_waits_for_its_next_run_counts_that_one(drive: Drive) -> None:
    taken = await drive.running()
    await drive.settle(taken, retryable())
    await drive.backend.cancel(0, taken.msg_id, "sender-1", 1, 0)
    assert await told(drive) == [end_of("cancelled", status="failed", attempt=2, hand=taken.hand)]


async def test_the_second_round_says_so_and_its_hand_is_of_no_run(drive: Drive) -> None:
    taken = await drive.running(max_attempts=1)
    await drive.settle(taken, retryable())
    await drive.decide(await drive.asked_again(), Plan("finish", answer=retryable()))
    await drive.sent(Plan("delay", wait_ms=60_000), msg_id=taken.msg_id, round=2)
    await drive.backend.cancel(0, taken.msg_id, "sender-1", 2, 0)
    nobody = {"attempt": 0, "agent": None, "instance": None, "hand": "0-2"}
    assert await told(drive) == [end_of("cancelled", status="failed", round=2, **nobody)]


async def test_whoever_records_his_run_himself_is_believed(drive: Drive) -> None:
    for answer in (success(), failure(), retryable()):
        assert await drive.settle(await drive.running(), answer) == "done"
    assert await told(drive) == []


async def test_a_run_that_nobody_records_is_told_with_its_end(drive: Drive) -> None:
    taken = await drive.running()
    await drive.place.pass_time(2_000)
    assert await drive.settle(taken, success(), records=False) == "done"
    (run,) = await told(drive)
    began, now_us = run.pop("began"), await drive.backend.now_ms() * 1000
    assert 2_000_000 <= now_us - began < 60_000_000
    assert run == end_of("ok", status="success", hand=taken.hand)
    assert await drive.settle(taken, success(), records=False) == "done"
    assert len(await told(drive)) == 1, "the same once more is no other run"


async def test_a_run_that_has_not_ended_the_leg_says_so(drive: Drive) -> None:
    taken = await drive.running()
    assert await drive.settle(taken, retryable(), records=False) == "done"
    (run,) = await told(drive)
    assert run.pop("began") > 0
    assert run == end_of("handler.error", hand=taken.hand, ended=False)


async def test_a_plain_reader_is_known_by_his_settlement(drive: Drive) -> None:
    """The ledger has not heard that anybody took it: the run began when it was settled."""
    await drive.sent()
    (hand,) = await drive.place.read_plain(KEYS.inbox(0, AGENT, "normal"), "agent", "p1")
    ((_, fields),) = await drive.inbox()
    one = Settlement(fields[b"m"].decode(), 0, hand, success(), "p1", records=False)
    assert await drive.backend.settle(0, AGENT, [one]) == ["done"]
    (run,) = await told(drive)
    assert run.pop("began") > 0
    assert run == end_of("ok", status="success", instance="p1", hand=hand)


async def test_one_of_a_call_that_is_not_recorded_has_all_of_it_told(drive: Drive) -> None:
    for _ in range(2):
        await drive.sent()
    first, second = await drive.take()
    both = [Settlement(one.msg_id, 0, one.hand, success(), "i1", records=one is second) for one in (first, second)]
    assert await drive.backend.settle(0, AGENT, both) == ["done", "done"]
    assert [run["hand"] for run in await told(drive)] == [first.hand, second.hand]


async def test_a_result_that_comes_too_late_has_the_end_told(drive: Drive) -> None:
    taken = await drive.running()
    await drive.place.pass_time(30_001)
    assert await drive.settle(taken, success()) == "stale"
    assert await told(drive) == [end_of("timeout.total", hand=taken.hand)]


async def test_a_question_that_comes_too_late_has_the_end_told(drive: Drive) -> None:
    taken = await drive.running()
    await drive.place.pass_time(30_001)
    assert await drive.backend.park(0, AGENT, Parking(taken.msg_id, 0, taken.hand, b'"?"', "i1")) == "stale"
    assert await told(drive) == [end_of("timeout.total", hand=taken.hand)]


async def test_what_take_finds_expired_is_told(drive: Drive) -> None:
    await drive.sent()
    ((hand, _),) = await drive.inbox()
    await drive.place.pass_time(30_001)
    assert await drive.take() == []
    assert await told(drive) == [end_of("timeout.total", instance=None, hand=hand)]


async def test_what_a_caller_ends_is_told_and_what_a_router_ends_is_not(drive: Drive) -> None:
    await drive.past_grace()
    for own in (True, False):
        msg_id = await drive.sent()
        await drive.place.pass_time(30_001)
        assert (await drive.backend.due(0, msg_id if own else "")).events
        assert len(await told(drive)) == 1
    assert (await told(drive))[0]["code"] == "timeout.total"


async def test_what_a_router_decides_is_told_to_nobody_else(drive: Drive) -> None:
    await drive.sent(Plan("finish", answer=failure("route.not_found")))
    msg_id = "a3f2c1e4-9b8d-4f3a-8c2e-1a2b3c4d5e6f"
    await drive.backend.cancel(0, msg_id, "sender-1", 1, 60_000)
    _, result = await drive.send(msg_id=msg_id)
    assert result.known == "tombstone"
    assert await told(drive) == []


async def test_what_fails_half_way_is_told_to_the_router_that_has_tried(drive: Drive) -> None:
    _, result = await drive.send(Plan("finish"))
    assert result.verdict == "error"
    _, entry = await drive.returned()
    assert (await drive.decide(entry, Plan("finish"))).verdict == "error"
    assert await told(drive) == []


async def test_a_line_without_room_is_told_where_no_send_is_answered(drive: Drive) -> None:
    """Whoever sends is told; what joins its line later, when it is due, ends although a router has planned to hand it over."""
    later, _ = await send_to(drive, Plan("delay", wait_ms=1_000), not_before_ms=await drive.backend.now_ms() + 1_000)
    await drive.place.push(LINE, *(new_id() for _ in range(10_000)))
    _, result = await send_to(drive)
    assert result.known == "overloaded"
    assert await told(drive) == []
    await drive.live(2_500)
    entry = await drive.asked_again()
    await drive.place.push(LINE, *(new_id() for _ in range(1_000)))  # whoever looks lets some go that are no messages
    assert (await drive.decide(entry, TO_AGENT)).known == "overloaded"
    assert (await drive.leg(later)).code == "overloaded"
    assert await told(drive) == [end_of("overloaded", attempt=0, agent=None, instance=None, hand="0")]
    await drive.place.delete(LINE)


async def test_an_inbox_that_is_gone_is_told(drive: Drive) -> None:
    """The router has planned to hand it over."""
    await drive.sent(Plan("deliver", AGENT), Plan("deliver", "nobody"), scope="all")
    nobody = {"leg": 1, "agent": "nobody", "instance": None, "attempt": 0, "hand": "0"}
    assert await told(drive) == [end_of("agent.lost", **nobody)]


async def test_the_bytes_that_are_lost_with_an_inbox_are_told(drive: Drive) -> None:
    await drive.past_grace()
    await drive.sent()
    ((hand, _),) = await drive.inbox()
    await drive.place.remove(KEYS.inbox(0, AGENT, "normal"), hand)
    events = await drive.live(5_000)
    assert [event.what for event in events] == ["gone"]
    assert await told(drive) == [end_of("backend.unavailable", instance=None, hand=hand)]


async def test_the_legs_behind_a_stage_that_has_failed_are_told(drive: Drive) -> None:
    await drive.backend.open_inbox(0, "a2")
    stages = (Stage(0, 1, 1), Stage(1, 1, 1))
    await drive.sent(Plan("deliver", AGENT), Plan("hold", "a2"), scope="all", stages=stages)
    assert await drive.settle(await drive.taken(), failure()) == "done"
    behind = {"leg": 1, "agent": "a2", "instance": None, "attempt": 0, "hand": "0", "status": "failed"}
    assert await told(drive) == [end_of("stage.failed", **behind)]


async def test_an_agent_that_answers_as_a_failed_stage_does_tells_of_no_stage(drive: Drive) -> None:
    await drive.sent(Plan("deliver", AGENT), scope="all")
    assert await drive.settle(await drive.taken(), failure("stage.failed")) == "done"
    assert await told(drive) == []


async def test_whose_answer_has_ended_it_is_told(drive: Drive) -> None:
    """The caller's `due` ends it with the answer that it has: of the agent that gave it, in the run that it was given in."""
    taken = await kept(drive)
    await drive.place.pass_time(30_001)
    await drive.backend.due(0, taken.msg_id)
    assert await told(drive) == [end_of("ok", status="success", hand=taken.hand)]


async def test_a_second_opinion_that_ends_it_as_its_inbox_closes_is_told(drive: Drive) -> None:
    second = await asked(drive)
    await drive.place.pass_time(15_001)
    assert await drive.backend.close_inbox(0, "a2")
    assert await told(drive) == [end_of("ok", status="success", hand=second.hand)]


async def test_an_answer_that_is_all_that_is_left_is_told_once(drive: Drive) -> None:
    """The second opinion lies in an inbox that is gone, with the bytes: `due` tells its caller that the leg was answered."""
    await drive.past_grace()
    taken = await kept(drive)
    await drive.decide(await drive.asked_again(), Plan("deliver", "a2"))
    await drive.place.delete(KEYS.inbox(0, "a2", "normal"))
    events = await drive.live(5_000)
    assert [event.what for event in events] == ["gone", "answered"]
    assert (await drive.leg(taken.msg_id)).by_agent == AGENT
    assert await told(drive) == []


async def test_a_sure_answer_that_is_told_by_nobody_is_told_once(drive: Drive) -> None:
    taken = await drive.running(min_confidence=0.8)
    assert await drive.settle(taken, sure(0.9), records=False) == "done"
    (run,) = await told(drive)
    assert run.pop("began") > 0
    assert run == end_of("ok", status="success", hand=taken.hand)
