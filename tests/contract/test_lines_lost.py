"""Order lines when Redis has lost a part of them: the line's key, a record, an `again`; and what strangers have put there."""

import pytest

from reach.envelope.ledger import LegState
from tests.contract.drive import TO_AGENT, Drive, new_id, retryable, success
from tests.contract.line_moves import LINE, LONG_MS, agains, finish, line, queue_up, send_to, states
from tests.contract.places import KEYS

HELD, QUEUED, RUNNING = LegState.HELD, LegState.QUEUED, LegState.RUNNING


async def test_a_first_whose_record_is_lost_is_dropped(drive: Drive) -> None:
    await drive.past_grace()
    first, second, third = await queue_up(drive, 3)
    await drive.place.delete(KEYS.message(0, first))
    await drive.live(3_100)
    assert await line(drive) == [second, third]
    assert set(await agains(drive)) - {second} == {f"{second}:sent"}


async def test_one_behind_whose_record_is_lost_is_passed_over(drive: Drive) -> None:
    first, second, third = await queue_up(drive, 3)
    await drive.place.delete(KEYS.message(0, second))
    await finish(drive, first)
    assert await agains(drive) == [f"{third}:sent"]
    assert await line(drive) == [third]


async def test_one_whose_record_was_lost_and_that_is_sent_again_stands_there_once(drive: Drive) -> None:
    first, second = await queue_up(drive, 2)
    await drive.place.delete(KEYS.message(0, second))
    _, result = await send_to(drive, msg_id=second)
    assert (result.known, await line(drive)) == ("held", [first, second])
    await finish(drive, first)
    assert await agains(drive) == [f"{second}:sent"]


async def test_whoever_ends_leaves_no_trace_however_often_it_stands_there(drive: Drive) -> None:
    first, second = await queue_up(drive, 2)
    await drive.place.push(LINE, first, second, first)
    await finish(drive, first)
    assert await line(drive) == [second, second]
    await agains(drive)
    await finish(drive, second)
    assert await drive.place.type_of(LINE) == "none"


@pytest.mark.parametrize("how", ["deleted", "spoilt"])
async def test_who_runs_when_the_line_is_lost_comes_back_in_front_and_is_waited_for(drive: Drive, how: str) -> None:
    await drive.past_grace()
    first, second, third = await queue_up(drive, 3, processing_ms=LONG_MS)
    taken = await drive.taken()
    await (drive.place.delete(LINE) if how == "deleted" else drive.place.spoil(LINE))
    events = await drive.live(40_000, renew=(taken.hand,))
    assert [event.what for event in events] == []
    assert await drive.work("again") == []
    assert (await line(drive))[0] == first
    assert set(await line(drive)) == {first, second, third}
    assert await states(drive, [first, second, third]) == [RUNNING, HELD, HELD]
    await drive.settle(taken, success())
    (called,) = await agains(drive)
    assert called in {f"{second}:sent", f"{third}:sent"}
    assert await drive.place.ttl_ms(LINE) > 0


async def test_who_is_put_back_may_not_go_for_17_s(drive: Drive) -> None:
    """Somebody whom the line has lost too may run, and has not been looked at since: here nobody does, and they wait all the same."""
    await drive.past_grace()
    first, second = await queue_up(drive, 2)
    taken = await drive.taken()
    await drive.place.delete(LINE)
    await drive.live(3_100, renew=(taken.hand,))
    assert await line(drive) == [second]
    await drive.settle(taken, success())
    assert (await drive.leg(first)).finished_at_ms
    await drive.live(16_000)
    assert await agains(drive) == []
    await drive.live(16_000)
    assert await agains(drive) == [f"{second}:sent"]
    assert await drive.place.members(LINE) == [second]


async def test_who_comes_meanwhile_waits_behind_them(drive: Drive) -> None:
    await drive.past_grace()
    _, second = await queue_up(drive, 2)
    taken = await drive.taken()
    await drive.place.delete(LINE)
    await drive.live(3_100, renew=(taken.hand,))
    (late,) = await queue_up(drive, 1)
    assert (await drive.leg(late)).state is HELD
    await drive.backend.cancel(0, second, "sender-1", 1, 0)
    assert await agains(drive) == []
    assert await line(drive) == [late]
    assert (await drive.leg(late)).state is HELD


async def test_there_is_one_mark_for_all_that_come_back(drive: Drive) -> None:
    await drive.past_grace()
    await queue_up(drive, 4, processing_ms=LONG_MS)
    taken = await drive.taken()
    await drive.place.delete(LINE)
    await drive.live(3_100, renew=(taken.hand,))
    members = await drive.place.members(LINE)
    assert len(members) == 4
    assert [member[0] == "@" for member in members] == [True, False, False, False]


async def test_a_line_is_not_handed_over_to_one_that_it_has_lost(drive: Drive) -> None:
    """Its `again` was under way when the line was lost: somebody else may run by now."""
    await drive.past_grace()
    first, _ = await queue_up(drive, 2)
    await drive.settle(await drive.taken(), retryable())
    entry = await drive.asked_again()
    await drive.place.delete(LINE)
    (new,) = await queue_up(drive, 1)
    assert (await drive.leg(new)).state is QUEUED
    assert (await drive.decide(entry, TO_AGENT)).known == "held"
    assert await states(drive, [first, new]) == [HELD, QUEUED]
    assert await line(drive) == [new]


async def test_one_that_came_back_to_an_empty_line_is_held_too(drive: Drive) -> None:
    await drive.past_grace()
    (first,) = await queue_up(drive, 1)
    await drive.settle(await drive.taken(), retryable())
    await drive.place.delete(LINE)
    assert await agains(drive) == [first]
    assert (await drive.leg(first)).state is HELD
    await drive.live(40_000)
    assert f"{first}:sent" in await agains(drive)


async def test_what_strangers_put_in_front_is_dropped(drive: Drive) -> None:
    await drive.past_grace()
    await drive.place.push(LINE, "nonsense", new_id(), "@1", "@99999999999999", "@" + "9" * 40, "")
    (msg_id,) = await queue_up(drive, 1)
    assert (await drive.leg(msg_id)).state is HELD
    await drive.live(3_100)
    assert await agains(drive) == [f"{msg_id}:sent"]
    assert await drive.place.members(LINE) == [msg_id]


async def test_an_open_message_of_another_line_holds_up_nobody(drive: Drive) -> None:
    await drive.past_grace()
    other = await drive.sent(ttl_ms=LONG_MS, total_ms=LONG_MS, network_ms=LONG_MS)
    await drive.place.push(LINE, other)
    (msg_id,) = await queue_up(drive, 1)
    await drive.live(3_100)
    assert await agains(drive) == [f"{msg_id}:sent"]


async def test_more_strangers_than_one_look_takes_out_are_dropped_by_several(drive: Drive) -> None:
    await drive.past_grace()
    await drive.place.push(LINE, *map(str, range(150)))
    (msg_id,) = await queue_up(drive, 1)
    await drive.live(10_000)
    assert await agains(drive) == [f"{msg_id}:sent"]


async def test_a_line_that_is_something_else_is_made_anew(drive: Drive) -> None:
    await drive.place.spoil(LINE)
    first, second = await queue_up(drive, 2)
    assert await states(drive, [first, second]) == [QUEUED, HELD]
    assert await drive.place.members(LINE) == [first, second]


async def test_a_spoilt_line_does_not_keep_its_messages_from_ending(drive: Drive) -> None:
    first, second = await queue_up(drive, 2)
    await drive.place.spoil(LINE)
    await finish(drive, first)
    assert (await drive.backend.cancel(0, second, "sender-1", 1, 0)).what == "cancelled"
    await drive.place.delete(LINE)


async def test_the_line_has_room_for_ten_thousand(drive: Drive) -> None:
    await drive.place.push(LINE, *(new_id() for _ in range(10_000)))
    msg_id, result = await send_to(drive)
    assert (result.verdict, result.known) == ("done", "overloaded")
    receipt = await drive.receipt()
    assert (receipt["msg_id"], receipt["status"], receipt["code"]) == (msg_id, "retryable", "overloaded")
    await drive.place.delete(LINE)


async def test_whoever_drops_somebody_calls_the_next(drive: Drive) -> None:
    """Here one that stands further behind looks first: it came later, and looks more often yet."""
    await drive.past_grace()
    first, second = await queue_up(drive, 2)
    await drive.live(11_000)
    (third,) = await queue_up(drive, 1)
    await drive.place.delete(KEYS.message(0, first))
    assert (await drive.leg(third)).due_at_ms < (await drive.leg(second)).due_at_ms - 1_000
    await drive.live(3_500)
    assert await agains(drive) == [f"{second}:sent"]
    assert await line(drive) == [second, third]
