"""How many messages may be open: of all, of one sender, with one agent; and that a count that is wrong holds up nobody."""

import pytest

from reach.backend.steps import Plan, RouteResult, Send
from reach.envelope.ledger import LegState
from tests.contract.drive import AGENT, BOX, ENVELOPE, TO_AGENT, Drive, head_of, new_id, retryable, success
from tests.contract.places import KEYS

INFLIGHT = KEYS.inflight(0)


async def send(
    drive: Drive, *plans: Plan, most: int = 0, mine: int = 0, msg_id: str = "", **head: object
) -> tuple[str, RouteResult]:
    msg_id = msg_id or new_id()
    decision = Send(
        await drive.entry(),
        msg_id,
        head_of(msg_id, **head),
        plans or (TO_AGENT,),
        ENVELOPE,
        BOX,
        "{}",
        max_open=most,
        max_open_sender=mine,
    )
    return msg_id, await drive.route(decision)


async def open_now(drive: Drive) -> dict[bytes, bytes]:
    return await drive.place.fields(INFLIGHT)


async def test_over_the_bound_of_all_nothing_is_written(drive: Drive) -> None:
    await send(drive, most=2)
    await send(drive, most=2, sender="sender-2")
    msg_id, result = await send(drive, most=2, sender="sender-3")
    assert (result.verdict, result.known) == ("full", "env")
    assert await drive.backend.inspect(0, msg_id) is None
    assert await open_now(drive) == {b"*": b"2", b"sender-1": b"1", b"sender-2": b"1"}
    assert len(await drive.backend.own_work("router-1", 0)) == 1


async def test_over_the_bound_of_one_sender_others_get_in(drive: Drive) -> None:
    await send(drive, mine=1)
    _, result = await send(drive, mine=1)
    assert (result.verdict, result.known) == ("full", "sender")
    _, result = await send(drive, mine=1, sender="sender-2")
    assert result.verdict == "done"


async def test_what_waits_or_runs_is_open_and_what_has_ended_is_not(drive: Drive) -> None:
    await send(drive, Plan("delay", wait_ms=5_000), most=3)
    await send(drive, most=3)
    taken = await drive.taken()
    await send(drive, Plan("finish", answer=retryable()), most=3)
    assert await open_now(drive) == {b"*": b"2", b"sender-1": b"2"}
    await drive.settle(taken, success())
    assert await open_now(drive) == {b"*": b"1", b"sender-1": b"1"}


async def test_a_message_of_several_legs_is_one_and_ends_with_the_last(drive: Drive) -> None:
    await drive.backend.open_inbox(0, "a2")
    await send(drive, TO_AGENT, Plan("deliver", "a2"), most=1, scope="all")
    await drive.settle(await drive.taken(), success())
    _, result = await send(drive, most=1)
    assert result.known == "env"
    (second,) = await drive.take(agent="a2")
    await drive.settle_as("a2", second, success())
    assert await open_now(drive) == {}


async def test_whatever_ends_a_message_makes_room(drive: Drive) -> None:
    msg_id, _ = await send(drive, most=1)
    await drive.backend.cancel(0, msg_id, "sender-1", 1, 0)
    assert await open_now(drive) == {}, "cancelled"
    await send(drive, most=1, total_ms=1_000)
    await drive.live(2_000)
    assert await open_now(drive) == {}, "its total was over"
    await drive.backend.cancel(0, msg_id := new_id(), "sender-1", 1, 0)
    await send(drive, most=1, msg_id=msg_id)
    assert await open_now(drive) == {}, "cancelled before it came"


async def test_a_repeat_of_an_open_message_is_never_too_many(drive: Drive) -> None:
    msg_id, _ = await send(drive, most=1)
    _, result = await send(drive, most=1, msg_id=msg_id)
    assert (result.verdict, result.known) == ("done", "duplicate")


async def test_a_new_round_counts_as_a_new_message(drive: Drive) -> None:
    msg_id, _ = await send(drive, Plan("finish", answer=retryable()), most=1)
    await send(drive, most=1)
    _, result = await send(drive, most=1, msg_id=msg_id, round=2)
    assert result.known == "env"
    await drive.settle(await drive.taken(), success())
    _, result = await send(drive, most=1, msg_id=msg_id, round=2)
    assert (result.verdict, await open_now(drive)) == ("done", {b"*": b"1", b"sender-1": b"1"})


async def test_without_a_bound_nothing_is_counted(drive: Drive) -> None:
    await send(drive)
    assert await drive.place.type_of(INFLIGHT) == "none"
    await send(drive, most=1)
    assert await open_now(drive) == {b"*": b"1", b"sender-1": b"1"}
    for taken in await drive.take():
        await drive.settle(taken, success())
    assert await open_now(drive) == {}, "and what was not counted takes nothing away"


async def test_a_count_that_says_more_than_is_open_goes(drive: Drive) -> None:
    await drive.place.set_field(INFLIGHT, "*", b"9")
    await drive.place.set_field(INFLIGHT, "sender-1", b"9")
    for most, mine in ((2, 0), (0, 2)):
        _, result = await send(drive, most=most, mine=mine)
        assert result.verdict == "done"
    assert await open_now(drive) == {b"*": b"2", b"sender-1": b"2"}


@pytest.mark.parametrize("how", ["delete", "spoil"])
async def test_a_count_that_is_lost_or_spoilt_stops_nothing(drive: Drive, how: str) -> None:
    await send(drive, most=2)
    await getattr(drive.place, how)(INFLIGHT)
    _, result = await send(drive, most=1)
    assert result.verdict == "done"
    await getattr(drive.place, how)(INFLIGHT)
    for taken in await drive.take():
        assert await drive.settle(taken, success()) == "done"
    await drive.place.delete(INFLIGHT)


async def test_the_count_lives_as_long_as_what_it_counts(drive: Drive) -> None:
    await send(drive, most=2, total_ms=200_000)
    await send(drive, most=2)
    assert 590_000 < await drive.place.ttl_ms(INFLIGHT) <= 600_000


async def test_an_agent_has_no_more_than_it_may_whatever_of_it_runs(drive: Drive) -> None:
    two = Plan("deliver", AGENT, max_agent=2)
    await drive.sent(two, lane="high")
    await drive.sent(two)
    await drive.take(free=1)
    _, result = await drive.send(two, lane="low", sender="sender-2")
    assert (result.verdict, result.known) == ("full", "agent")
    msg_id = await drive.sent(two, scope="all")
    assert (await drive.leg(msg_id)).state is LegState.WAITING
    (taken,) = await drive.take()
    await drive.settle(taken, success())
    entry = await drive.asked_again()
    _, result = await drive.send(two)
    assert (result.verdict, result.known) == ("full", "agent"), "the room is for the leg that waits"
    assert (await drive.decide(entry, two)).verdict == "done"
