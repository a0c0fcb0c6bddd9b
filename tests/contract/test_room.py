"""Who waits for room at an agent: woken when there is some, the oldest first, passed by nobody who comes later (docs/decisions/0029)."""

from typing import Any

import pytest

from reach.backend.steps import Parking, Plan, RouteResult, Send, Settlement, Taken, WorkEntry
from reach.delivery.planning import plan_of
from reach.envelope.ledger import LegState
from reach.envelope.registration import RoutePolicy
from reach.routing.index import CapabilityIndex
from reach.routing.steps import Deliver
from tests.contract.drive import AGENT, ENVELOPE, Drive, head_of, new_id, retryable, success
from tests.contract.places import KEYS
from tests.unit.routing.seen import NOW, add

ONE_SLOT = Plan("deliver", AGENT, max_agent=1)
ALL, LANE, SHARE = (KEYS.room(0, AGENT, bound) for bound in ("all", "normal", "of:sender-1"))
LONG = 2_000


def until_room(*rooms: Plan) -> Plan:
    return Plan("delay", wait_ms=LONG, rooms=rooms or (ONE_SLOT,))


async def agains(drive: Drive) -> list[WorkEntry]:
    """What asks for a decision and has none yet."""
    await drive.work()
    return [entry for entry in await drive.backend.own_work("router-1", 0) if entry.kind == "again"]


async def called(drive: Drive) -> list[str]:
    """Of whom that is."""
    return [entry.fields[b"m"].decode() for entry in await agains(drive)]


async def waits(drive: Drive, *rooms: Plan, **options: Any) -> str:
    """A message that waits, younger than all before it."""
    await drive.place.pass_time(2)
    msg_id = await drive.sent(until_room(*rooms), **options)
    assert msg_id not in await called(drive)
    return msg_id


async def done(drive: Drive, taken: Taken) -> None:
    assert await drive.settle(taken, success()) == "done"


async def goes(drive: Drive, plan: Plan = ONE_SLOT) -> RouteResult:
    """The one that was called is handed over, if there is room."""
    (entry,) = await agains(drive)
    return await drive.decide(entry, plan)


async def comes(drive: Drive, plan: Plan = ONE_SLOT, **options: Any) -> tuple[str, str]:
    """What a message that comes new is told."""
    _, result = await drive.send(plan, **options)
    return result.verdict, result.known


async def test_a_slot_that_is_free_again_calls_the_oldest_who_waits_and_nobody_else(drive: Drive) -> None:
    taken = await drive.running_by(ONE_SLOT)
    first, second, third = [await waits(drive) for _ in range(3)]
    assert list(await drive.place.scores(ALL)) == [f"{each}/0" for each in (first, second, third)]
    await done(drive, taken)
    (entry,) = await agains(drive)
    assert entry.fields[b"m"].decode() == first
    assert (await drive.leg(first)).woken_by == f"{AGENT}:all"
    assert (await drive.decide(entry, ONE_SLOT)).verdict == "done"
    assert await called(drive) == [], "one slot is for one"
    await done(drive, await drive.taken())
    assert await called(drive) == [second]


async def test_who_comes_new_does_not_pass_who_waits(drive: Drive) -> None:
    taken = await drive.running_by(ONE_SLOT)
    waiting = await waits(drive)
    await done(drive, taken)
    assert await comes(drive) == ("full", "agent")
    assert (await goes(drive)).verdict == "done"
    assert (await drive.leg(waiting)).state is LegState.QUEUED
    assert await drive.place.type_of(ALL) == "none"
    await done(drive, await drive.taken())
    assert await comes(drive) == ("done", ""), "nobody waits any more"


async def test_the_second_in_the_queue_does_not_pass_the_first(drive: Drive) -> None:
    taken = await drive.running_by(ONE_SLOT)
    first, second = await waits(drive), await waits(drive)
    await done(drive, taken)
    (called_first,) = await agains(drive)
    await drive.live(LONG)  # the other looks again by itself
    entry = next(e for e in await agains(drive) if e.fields[b"m"].decode() == second)
    result = await drive.decide(entry, ONE_SLOT)
    assert (result.verdict, result.known) == ("full", "agent")
    assert (await drive.decide(called_first, ONE_SLOT)).verdict == "done"
    assert (await drive.taken()).msg_id == first


async def test_two_slots_that_are_free_again_call_two(drive: Drive) -> None:
    two = Plan("deliver", AGENT, max_agent=2)
    await drive.sent(two)
    await drive.sent(two)
    running = await drive.take()
    first, second, _ = [await waits(drive, two) for _ in range(3)]
    for taken in running:
        await done(drive, taken)
    entries = await agains(drive)
    assert [entry.fields[b"m"].decode() for entry in entries] == [first, second]
    for entry in reversed(entries):
        assert (await drive.decide(entry, two)).verdict == "done", "in either order"
    assert await called(drive) == []


async def test_a_higher_lane_goes_first_and_passes(drive: Drive) -> None:
    taken = await drive.running_by(ONE_SLOT)
    await waits(drive)
    urgent = await waits(drive, lane="high")
    await done(drive, taken)
    assert await called(drive) == [urgent]
    assert await comes(drive, lane="high") == ("full", "agent"), "behind the one of its own lane"
    await drive.backend.cancel(0, urgent, "sender-1", 1, 0)
    assert await comes(drive, lane="high") == ("done", "")


@pytest.mark.parametrize("bound", ["lane", "share"])
async def test_whatever_bound_it_is_that_refuses(drive: Drive, bound: str) -> None:
    plan = Plan("deliver", AGENT, max_inbox=1 if bound == "lane" else 2)
    await drive.sent(plan)
    waiting = await waits(drive, plan)
    assert list(await drive.place.scores(LANE if bound == "lane" else SHARE)) == [f"{waiting}/0"]
    await drive.taken()
    assert (await comes(drive, plan))[0] == "full"
    assert (await goes(drive, plan)).verdict == "done"
    assert (await drive.leg(waiting)).rooms == ()


async def test_another_sender_does_not_wait_behind_the_share_of_one(drive: Drive) -> None:
    plan = Plan("deliver", AGENT, max_inbox=4)
    await drive.sent(plan)
    await drive.sent(plan)
    await waits(drive, plan)
    assert await comes(drive, plan) == ("full", "share")
    assert await comes(drive, plan, sender="sender-2") == ("done", "")


async def test_a_bound_that_is_wider_is_not_made_narrower_by_who_waits(drive: Drive) -> None:
    await drive.running_by(ONE_SLOT)
    await waits(drive)
    assert await comes(drive, Plan("deliver", AGENT, max_inbox=10)) == ("done", "")
    assert await comes(drive, Plan("deliver", AGENT, max_agent=4)) == ("done", "")
    assert await comes(drive, Plan("deliver", AGENT, max_agent=4)) == ("full", "agent"), "three lie there, one waits"


async def test_room_that_has_come_between_the_refusal_and_the_wait_is_taken_at_once(drive: Drive) -> None:
    msg_id = await drive.sent(until_room())
    assert (await drive.leg(msg_id)).woken_by == f"{AGENT}:all"
    (entry,) = await agains(drive)
    assert await comes(drive) == ("full", "agent"), "it is about to be taken"
    assert (await drive.decide(entry, ONE_SLOT)).verdict == "done"
    assert await drive.place.type_of(ALL) == "none"


async def test_who_is_about_to_take_room_stands_in_every_queue_for_it(drive: Drive) -> None:
    plan = Plan("deliver", AGENT, max_inbox=2, max_agent=3)
    msg_id = await drive.sent(until_room(plan))
    assert (await drive.leg(msg_id)).rooms == (f"{AGENT}:all", f"{AGENT}:normal", f"{AGENT}:of:sender-1")
    assert await comes(drive, plan) == ("full", "share")
    assert await comes(drive, plan, sender="sender-2") == ("done", "")


@pytest.mark.parametrize("end", ["cancelled", "elsewhere", "waits for another"])
async def test_who_was_called_and_does_not_go_there_leaves_the_room_to_the_next(drive: Drive, end: str) -> None:
    await drive.backend.open_inbox(0, "a2")
    taken = await drive.running_by(ONE_SLOT)
    await drive.sent(Plan("deliver", "a2"))
    first, second = await waits(drive), await waits(drive)
    await done(drive, taken)
    (entry,) = await agains(drive)
    if end == "cancelled":
        await drive.backend.cancel(0, first, "sender-1", 1, 0)
    elif end == "elsewhere":
        assert (await drive.decide(entry, Plan("deliver", "a2"))).verdict == "done"
    else:
        await drive.decide(entry, until_room(Plan("deliver", "a2", max_agent=1)))
        assert (await drive.leg(first)).rooms == ("a2:all",)
    assert second in await called(drive)


async def test_who_looks_again_by_itself_is_told_too_and_leaves_the_room_to_the_next(drive: Drive) -> None:
    taken = await drive.running_by(ONE_SLOT)
    first = await waits(drive)
    await drive.place.pass_time(2)
    second = await drive.sent(Plan("delay", wait_ms=20_000, rooms=(ONE_SLOT,)))
    await drive.live(LONG + 500, renew=(taken.hand,))
    assert await called(drive) == [first]
    await done(drive, taken)
    assert await called(drive) == [first], "it decides anyway"
    assert (await drive.leg(first)).woken_by == f"{AGENT}:all"
    await drive.backend.cancel(0, first, "sender-1", 1, 0)
    assert (await called(drive))[-1] == second


async def test_who_sleeps_and_is_cancelled_calls_nobody(drive: Drive) -> None:
    taken = await drive.running_by(ONE_SLOT)
    first, second = await waits(drive), await waits(drive)
    await drive.backend.cancel(0, first, "sender-1", 1, 0)
    assert await called(drive) == []
    await done(drive, taken)
    assert await called(drive) == [second]


async def test_who_waits_at_two_agents_takes_the_first_room_and_leaves_both(drive: Drive) -> None:
    await drive.backend.open_inbox(0, "a2")
    there = Plan("deliver", "a2", max_agent=1)
    taken = await drive.running_by(ONE_SLOT)
    await drive.sent(there)
    waiting = await waits(drive, ONE_SLOT, there)
    assert (await drive.leg(waiting)).rooms == (f"{AGENT}:all", "a2:all")
    behind = await waits(drive, there)
    await done(drive, taken)
    assert (await goes(drive)).verdict == "done"
    assert list(await drive.place.scores(KEYS.room(0, "a2", "all"))) == [f"{behind}/0"]
    assert await called(drive) == [], "of a2 it had not been told"


async def test_more_slots_are_found_by_whoever_looks_and_go_to_the_oldest(drive: Drive) -> None:
    await drive.running_by(ONE_SLOT)
    first, second = await waits(drive), await waits(drive)
    three = Plan("deliver", AGENT, max_agent=3)
    await drive.place.pass_time(2)
    third = await drive.sent(until_room(three))
    (entry,) = await agains(drive)
    assert entry.fields[b"m"].decode() == first
    assert (await drive.decide(entry, three)).verdict == "done"
    (entry,) = await agains(drive)
    assert entry.fields[b"m"].decode() == second, "there is still room"
    assert (await drive.decide(entry, three)).verdict == "done"
    assert await called(drive) == []
    assert (await drive.leg(third)).state is LegState.WAITING


async def test_a_wake_that_is_lost_is_made_good_when_its_wait_is_over(drive: Drive) -> None:
    taken = await drive.running_by(ONE_SLOT)
    waiting = await waits(drive)
    await done(drive, taken)
    (entry,) = await agains(drive)
    await drive.place.remove(entry.stream, entry.id)
    await drive.place.acknowledge(entry.stream, "routers", entry.id)
    assert "again" in [event.what for event in await drive.live(LONG + 500)]
    assert await called(drive) == [waiting]


async def test_a_queue_that_is_lost_or_spoilt_holds_up_nobody(drive: Drive) -> None:
    taken = await drive.running_by(ONE_SLOT)
    waiting = await waits(drive)
    await drive.place.delete(ALL)
    await drive.place.spoil(ALL)
    await done(drive, taken)
    await drive.live(LONG + 500)
    assert await called(drive) == [waiting]
    await drive.running()
    await drive.decide((await agains(drive))[0], until_room())
    assert list(await drive.place.scores(ALL)) == [f"{waiting}/0"], "it stands there again"


async def test_the_queue_is_made_anew_over_what_lies_there(drive: Drive) -> None:
    await drive.running_by(ONE_SLOT)
    await drive.place.spoil(ALL)
    await waits(drive)
    assert len(await drive.place.scores(ALL)) == 1


@pytest.mark.parametrize("junk", ["junk", "0198a5c2-7f3e-7000-8000-000000000001/0", "/", "a/9999999999999999"])
async def test_junk_in_a_queue_is_dropped_and_takes_nobody_s_room(drive: Drive, junk: str) -> None:
    taken = await drive.running_by(ONE_SLOT)
    waiting = await waits(drive)
    await drive.place.put_score(ALL, junk, 1)
    await done(drive, taken)
    assert await called(drive) == [waiting]
    assert list(await drive.place.scores(ALL)) == [f"{waiting}/0"]


async def test_who_stands_behind_nobody_but_junk_decides_at_once(drive: Drive) -> None:
    await drive.place.put_score(ALL, "junk", 1)
    assert await comes(drive) == ("full", "agent")
    await drive.sent(until_room())
    assert (await goes(drive)).verdict == "done"


async def test_the_queue_lives_as_long_as_the_longest_record_in_it(drive: Drive) -> None:
    await drive.running_by(ONE_SLOT)
    await waits(drive, total_ms=200_000)
    await waits(drive)
    assert 590_000 < await drive.place.ttl_ms(ALL) <= 600_000


async def test_a_leg_of_a_broadcast_waits_in_the_same_queue(drive: Drive) -> None:
    taken = await drive.running_by(ONE_SLOT)
    broadcast = await drive.sent(ONE_SLOT, scope="all")
    await waits(drive)
    await done(drive, taken)
    assert await called(drive) == [broadcast]


@pytest.mark.parametrize("how", ["park", "lost", "returned", "cancelled", "moved", "closed"])
async def test_however_a_message_leaves_an_inbox_there_is_room(drive: Drive, how: str) -> None:
    await drive.backend.open_inbox(0, "a2")
    await drive.sent(network_ms=1_000)
    taken = None if how in {"moved", "closed"} else await drive.taken()
    await drive.past_grace()
    for entry in await agains(drive):
        await drive.backend.finish_work(0, [entry])
    waiting = await drive.sent(Plan("delay", wait_ms=60_000, rooms=(ONE_SLOT,)), total_ms=90_000, ttl_ms=90_000)
    if taken is not None and how == "park":
        await drive.backend.park(0, AGENT, Parking(taken.msg_id, 0, taken.hand, b"1", "i1"))
    elif how == "lost":
        await drive.live(20_000)
    elif taken is not None and how == "returned":
        await drive.settle(taken, retryable())
    elif taken is not None and how == "cancelled":
        await drive.backend.cancel(0, taken.msg_id, "sender-1", 1, 0)
    elif how == "moved":
        ((hand, fields),) = await drive.inbox()
        again = await drive.place.append(KEYS.again(0), {"m": fields[b"m"], "l": b"0", "h": hand.encode()})
        entry = next(e for e in await agains(drive) if e.id == again)
        assert (await drive.decide(entry, Plan("move", "a2"))).verdict == "done"
    else:
        await drive.backend.close_inbox(0, AGENT)
    assert waiting in await called(drive)


async def test_it_waits_in_no_more_than_sixteen_queues(drive: Drive) -> None:
    rooms = []
    for number in range(20):
        agent = f"b{number}"
        await drive.backend.open_inbox(0, agent)
        await drive.sent(Plan("deliver", agent))
        rooms.append(Plan("deliver", agent, max_agent=1))
    assert len((await drive.leg(await waits(drive, *rooms))).rooms) == 16


async def test_each_partition_counts_by_itself(drive: Drive) -> None:
    """An agent of one slot has one message of each: docs/routing.md says so."""
    backend = drive.backend
    await drive.running_by(ONE_SLOT)
    await waits(drive)
    await backend.open_inbox(1, AGENT)
    await backend.submit(1, "normal", ENVELOPE)
    await backend.submit(1, "normal", ENVELOPE)
    found = []
    for entry in await backend.read_work("router-1", [1], 10, 0):
        msg_id = new_id()
        (result,) = await backend.route(1, [Send(entry, msg_id, head_of(msg_id), (ONE_SLOT,), ENVELOPE)])
        found.append(result.verdict)
    assert found == ["done", "full"]
    (taken,) = (await backend.take(1, AGENT, "i1", 10)).taken
    settlement = Settlement(taken.msg_id, 0, taken.hand, success(), "i1")
    assert await backend.settle(1, AGENT, [settlement]) == ["done"]
    assert await called(drive) == [], "room there is none here"


# ---------------------------------------------------------------- max_inbox: 0 <= 1 <= 2


async def let_in(drive: Drive, plan: Plan, running: int) -> int:
    """How many get in, one after the other, where so many run already; each is of another sender, for whom a share is room."""
    for _ in range(running):
        await drive.sent()
    await drive.take()
    count = 0
    while (await comes(drive, plan, sender=f"other-{count}"))[0] == "done":
        count += 1
    return count


@pytest.mark.parametrize(
    ("slots", "running", "admitted"),
    [(1, 0, (1, 1, 2, 3)), (1, 1, (0, 1, 2, 3)), (4, 3, (1, 1, 2, 3)), (4, 4, (0, 1, 2, 3))],
)
async def test_a_greater_bound_never_admits_less_and_what_runs_does_not_count(
    drive: Drive, slots: int, running: int, admitted: tuple[int, ...]
) -> None:
    index, found = CapabilityIndex(), []
    add(index, AGENT, "work", concurrency=slots)
    for bound in range(4):
        await drive.place.forget_all()
        await drive.keep_box()
        await drive.backend.open_inbox(0, AGENT)
        plan = plan_of(Deliver(AGENT), None, index, RoutePolicy(max_inbox=bound), NOW)
        found.append(await let_in(drive, plan, running))
    assert tuple(found) == admitted
    assert found == sorted(found)
