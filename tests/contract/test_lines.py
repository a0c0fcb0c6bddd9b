"""Order lines: of the messages of one line only the first is handed over; whoever ends it calls the next."""

import pytest

from reach.backend.steps import Again, Plan
from reach.envelope.ledger import LegState
from tests.contract.drive import AGENT, ENVELOPE, TO_AGENT, Drive, failure, new_id, retryable, success
from tests.contract.line_moves import LINE, LONG_MS, NAME, OTHER, agains, finish, line, queue_up, send_to, states
from tests.contract.places import KEYS

HELD, QUEUED, WAITING, RETURNED = LegState.HELD, LegState.QUEUED, LegState.WAITING, LegState.RETURNED


async def test_the_first_is_handed_over_and_the_others_are_held(drive: Drive) -> None:
    ids = await queue_up(drive, 3)
    assert await states(drive, ids) == [QUEUED, HELD, HELD]
    assert await drive.place.members(LINE) == ids
    assert [entry[1][b"m"].decode() for entry in await drive.inbox()] == ids[:1]
    held = await drive.leg(ids[1])
    assert (held.hand, held.agent) == ("0", "")
    assert await drive.bytes_of(ids[1]) == ENVELOPE


async def test_route_says_that_it_is_held(drive: Drive) -> None:
    await queue_up(drive, 1)
    _, result = await send_to(drive)
    assert (result.verdict, result.known, result.hands) == ("done", "held", ("",))
    (notice,) = [each for each in await drive.notices() if each["msg_id"] == _]
    assert (notice["notice"], notice["legs"]) == ("routed", [{"leg": 0, "agent": None}])


async def test_each_end_calls_the_next(drive: Drive) -> None:
    ids = await queue_up(drive, 4)
    for n, msg_id in enumerate(ids):
        await finish(drive, msg_id)
        assert await agains(drive) == [f"{each}:sent" for each in ids[n + 1 : n + 2]]
    assert await drive.place.type_of(LINE) == "none"
    assert [receipt["msg_id"] for receipt in await drive.receipts()] == ids
    assert await drive.place.type_of(KEYS.envelope(0, ids[-1])) == "none"


async def test_over_two_agents_one_runs_at_a_time(drive: Drive) -> None:
    await drive.backend.open_inbox(0, "a2")
    first, second = await queue_up(drive, 2)
    taken = await drive.taken()
    assert taken.msg_id == first
    assert await drive.take(agent="a2") == []
    await drive.settle(taken, success())
    await agains(drive, Plan("deliver", "a2"))
    (taken,) = await drive.take(agent="a2")
    assert taken.msg_id == second


async def test_lines_do_not_wait_for_each_other(drive: Drive) -> None:
    await queue_up(drive, 1)
    await queue_up(drive, 1, line=OTHER)
    await drive.sent()
    assert len(await drive.take()) == 3


async def test_it_stays_first_through_a_retry(drive: Drive) -> None:
    first, second = await queue_up(drive, 2)
    await drive.settle(await drive.taken(), retryable())
    assert await agains(drive, Plan("delay", wait_ms=5_000)) == [first]
    assert await states(drive, [first, second]) == [WAITING, HELD]
    await drive.live(5_100)
    assert await agains(drive) == [f"{first}:sent"]
    await finish(drive, first)
    assert await agains(drive) == [f"{second}:sent"]


async def test_it_stays_first_when_its_holder_dies(drive: Drive) -> None:
    await drive.past_grace()
    first, second = await queue_up(drive, 2)
    await drive.take("dead")
    await drive.live(17_000)
    leg = await drive.leg(first)
    assert (leg.state, leg.attempt, leg.code) == (RETURNED, 1, "agent.lost")
    assert await agains(drive) == [f"{first}:sent"]
    assert (await drive.leg(second)).state is HELD
    await finish(drive, first, "i2")
    assert await agains(drive) == [f"{second}:sent"]


@pytest.mark.parametrize("answer", [success(), failure()])
async def test_any_answer_calls_the_next(drive: Drive, answer: object) -> None:
    _, second = await queue_up(drive, 2)
    await drive.settle(await drive.taken(), answer)  # type: ignore[arg-type]
    assert await agains(drive) == [f"{second}:sent"]


async def test_a_cancelled_first_calls_the_next(drive: Drive) -> None:
    first, second = await queue_up(drive, 2)
    await drive.take()
    assert (await drive.backend.cancel(0, first, "sender-1", 1, 0)).what == "cancelled"
    assert await line(drive) == [second]
    assert await agains(drive) == [f"{second}:sent"]


async def test_a_cancelled_one_that_is_held_calls_nobody_and_leaves_the_line(drive: Drive) -> None:
    first, second, third = await queue_up(drive, 3)
    assert (await drive.backend.cancel(0, second, "sender-1", 1, 0)).what == "cancelled"
    assert await line(drive) == [first, third]
    assert await agains(drive) == []
    await finish(drive, first)
    assert await agains(drive) == [f"{third}:sent"]
    assert await drive.place.type_of(KEYS.envelope(0, second)) == "none"


async def test_the_total_of_one_that_is_held_runs_on(drive: Drive) -> None:
    first, second, third = (
        *(await queue_up(drive, 1)),
        *(await queue_up(drive, 1, total_ms=5_000)),
        *(await queue_up(drive, 1)),
    )
    taken = await drive.taken()
    await drive.live(5_100, renew=(taken.hand,))
    (receipt,) = await drive.receipts()
    assert (receipt["msg_id"], receipt["code"], receipt["details"]) == (second, "timeout.total", {"state": "held"})
    assert await line(drive) == [first, third]


async def test_the_ttl_of_one_that_is_held_runs_on(drive: Drive) -> None:
    await drive.past_grace()
    first, second = *(await queue_up(drive, 1)), *(await queue_up(drive, 1, ttl_ms=5_000))
    taken = await drive.taken()
    await drive.live(5_100, renew=(taken.hand,))
    (receipt,) = await drive.receipts()
    assert (receipt["msg_id"], receipt["code"]) == (second, "ttl.expired")
    assert await line(drive) == [first]


async def test_the_total_of_the_first_calls_the_next(drive: Drive) -> None:
    _, second = *(await queue_up(drive, 1, total_ms=4_000)), *(await queue_up(drive, 1))
    await drive.take()
    await drive.live(4_100)
    assert f"{second}:sent" in await agains(drive)


async def test_a_first_that_expires_before_it_is_taken_calls_the_next(drive: Drive) -> None:
    _, second = *(await queue_up(drive, 1, ttl_ms=4_000)), *(await queue_up(drive, 1))
    await drive.place.pass_time(4_100)
    assert await drive.take() == []
    assert await agains(drive) == [f"{second}:sent"]


async def test_a_caller_that_ends_its_own_message_calls_the_next(drive: Drive) -> None:
    first, second = *(await queue_up(drive, 1, total_ms=4_000)), *(await queue_up(drive, 1))
    await drive.place.pass_time(4_100)
    await drive.backend.due(0, first)
    assert await agains(drive) == [f"{second}:sent"]


async def test_a_duplicate_touches_nothing(drive: Drive) -> None:
    first, second = await queue_up(drive, 2)
    for msg_id in (first, second, second):
        _, result = await send_to(drive, msg_id=msg_id)
        assert result.known == "duplicate"
    assert await drive.place.members(LINE) == [first, second]
    await finish(drive, first)
    _, result = await send_to(drive, msg_id=first)
    assert (result.known, await drive.place.members(LINE)) == ("duplicate", [second])


async def test_a_send_that_was_cancelled_before_appends_nothing(drive: Drive) -> None:
    msg_id = new_id()
    await drive.backend.cancel(0, msg_id, "sender-1", 1, 0)
    _, result = await send_to(drive, msg_id=msg_id)
    assert result.known == "tombstone"
    assert await drive.place.type_of(LINE) == "none"
    (next_id,) = await queue_up(drive, 1)
    assert await states(drive, [next_id]) == [QUEUED]


async def test_what_ends_at_once_appends_nothing(drive: Drive) -> None:
    await send_to(drive, Plan("finish", answer=failure("route.not_found")))
    assert await drive.place.type_of(LINE) == "none"


async def test_a_new_round_goes_to_the_end_of_its_line(drive: Drive) -> None:
    first, second = await queue_up(drive, 2)
    await drive.settle(await drive.taken(), retryable())
    await agains(drive, Plan("finish", answer=retryable()))
    assert await agains(drive) == [f"{second}:sent"]
    _, result = await send_to(drive, msg_id=first, round=2)
    assert (result.known, await line(drive)) == ("held", [second, first])
    await finish(drive, second)
    assert await agains(drive) == [f"{first}:sent"]


async def test_who_is_not_to_go_before_a_moment_joins_when_it_is_due(drive: Drive) -> None:
    moment_ms = await drive.backend.now_ms() + 5_000
    later = await drive.sent(
        Plan("delay", wait_ms=5_000), line=NAME, not_before_ms=moment_ms, ttl_ms=60_000, total_ms=60_000
    )
    assert await drive.place.type_of(LINE) == "none"
    (soon,) = await queue_up(drive, 1)
    assert (await drive.leg(soon)).state is QUEUED
    taken = await drive.taken()
    await drive.live(5_100, renew=(taken.hand,))
    assert await agains(drive) == [later]
    assert (await drive.leg(later)).state is HELD
    assert await line(drive) == [soon, later]
    await drive.settle(taken, success())
    assert await agains(drive) == [f"{later}:sent"]


async def test_who_waits_for_somebody_to_appear_holds_up_the_others(drive: Drive) -> None:
    (first,) = await queue_up(drive, 1, Plan("delay", wait_ms=1_000))
    (second,) = await queue_up(drive, 1, Plan("delay", wait_ms=1_000))
    assert await states(drive, [first, second]) == [WAITING, HELD]
    await drive.live(1_100)
    assert await agains(drive) == [f"{first}:sent"]


async def test_one_that_is_held_needs_no_room(drive: Drive) -> None:
    (first,) = await queue_up(drive, 1)
    await drive.sent()
    full, gone = Plan("deliver", AGENT, max_inbox=1), Plan("deliver", "nobody")
    second, third = await queue_up(drive, 1, full), await queue_up(drive, 1, gone)
    assert await states(drive, [*second, *third]) == [HELD, HELD]
    (taken,) = await drive.take(free=1)  # the other one lies there
    assert taken.msg_id == first
    await drive.settle(taken, success())
    (entry,) = await drive.work("again")
    assert (await drive.decide(entry, full)).verdict == "full"
    assert (await drive.decide(entry, gone)).verdict == "gone"
    assert (await drive.leg(second[0])).state is HELD


async def test_a_first_without_room_changes_nothing(drive: Drive) -> None:
    await drive.sent()
    msg_id, result = await send_to(drive, Plan("deliver", AGENT, max_inbox=1))
    assert result.verdict == "full"
    assert await drive.backend.inspect(0, msg_id) is None
    assert await drive.place.type_of(LINE) == "none"


async def test_an_again_of_one_that_is_not_the_first_is_silence(drive: Drive) -> None:
    _, second = await queue_up(drive, 2)
    fields = {"m": second.encode(), "l": b"0", "h": b"0"}
    await drive.place.append(KEYS.again(0), fields)
    (entry,) = await drive.work("again")
    result = await drive.route(Again(entry, second, 0, "0", HELD, 0, TO_AGENT))
    assert (result.verdict, result.known) == ("done", "silent")
    assert (await drive.leg(second)).state is HELD


async def test_an_again_with_another_hand_calls_nobody(drive: Drive) -> None:
    first, second = await queue_up(drive, 2)
    await finish(drive, first)
    await drive.work("again")
    await drive.place.append(KEYS.again(0), {"m": second.encode(), "l": b"0", "h": b"1-1"})
    (entry,) = await drive.work("again")
    result = await drive.route(Again(entry, second, 0, "1-1", HELD, 0, TO_AGENT))
    assert (result.verdict, result.known) == ("done", "silent")
    assert (await drive.leg(second)).state is HELD


async def test_a_doubled_call_hands_over_once(drive: Drive) -> None:
    first, second = await queue_up(drive, 2)
    await finish(drive, first)
    await drive.place.append(KEYS.again(0), {"m": second.encode(), "l": b"0", "h": b"0"})
    one, two = await drive.work("again")
    assert (await drive.decide(one, TO_AGENT)).hands[0]
    assert (await drive.decide(two, TO_AGENT)).known == "silent"
    assert len(await drive.inbox()) == 1


async def test_a_call_that_is_lost_is_made_again(drive: Drive) -> None:
    await drive.past_grace()
    first, second = await queue_up(drive, 2)
    await finish(drive, first)
    (entry,) = await drive.work("again")
    await drive.place.remove(entry.stream, entry.id)
    await drive.backend.finish_work(0, [entry])
    await drive.live(3_100)
    assert await agains(drive) == [f"{second}:sent"]


async def test_one_that_is_held_asks_for_nothing_until_it_is_the_first(drive: Drive) -> None:
    await drive.past_grace()
    await queue_up(drive, 3, processing_ms=LONG_MS)
    taken = await drive.taken()
    events = await drive.live(60_000, renew=(taken.hand,))
    assert [event.what for event in events] == []
    assert await drive.work("again") == []


async def test_released_it_may_wait_for_somebody_and_stays_first(drive: Drive) -> None:
    first, second, third = await queue_up(drive, 3)
    await finish(drive, first)
    assert await agains(drive, Plan("delay", wait_ms=1_000)) == [second]
    leg = await drive.leg(second)
    assert leg.state is WAITING
    assert leg.queued_at_ms > 0
    assert await states(drive, [second, third]) == [WAITING, HELD]


async def test_a_line_lives_as_long_as_its_longest_record(drive: Drive) -> None:
    short, long = 10_000, 400_000
    (first,) = await queue_up(drive, 1, total_ms=short)
    (second,) = await queue_up(drive, 1, total_ms=long)
    await queue_up(drive, 1, total_ms=short)
    ttl = await drive.place.ttl_ms(LINE)
    assert ttl >= await drive.place.ttl_ms(KEYS.message(0, second)) - 50
    assert ttl > await drive.place.ttl_ms(KEYS.message(0, first)) + 300_000


async def test_a_record_of_a_broadcast_is_in_no_line(drive: Drive) -> None:
    await drive.backend.open_inbox(0, "a2")
    await drive.sent(TO_AGENT, Plan("deliver", "a2"), scope="all", line=NAME)
    await drive.sent(TO_AGENT, Plan("deliver", "a2"), scope="all", line=NAME)
    assert len(await drive.inbox()) == 2
    assert await drive.place.type_of(LINE) == "none"


async def test_a_broadcast_with_an_order_key_keeps_no_line_alive(drive: Drive) -> None:
    """Both name the line; only the one that stands in it counts for how long it lives."""
    await drive.backend.open_inbox(0, "a2")
    await queue_up(drive, 1)
    lives = await drive.place.ttl_ms(LINE)
    await drive.sent(TO_AGENT, Plan("deliver", "a2"), scope="all", line=NAME, total_ms=LONG_MS)
    assert await drive.place.ttl_ms(LINE) <= lives
