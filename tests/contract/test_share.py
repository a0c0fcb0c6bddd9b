"""The share: one sender fills at most half of an inbox, whatever becomes of the count."""

import pytest

from reach.backend.steps import Answer, Plan, Settlement
from reach.envelope.ledger import LegState
from tests.contract.drive import AGENT, Drive, new_id, retryable, success
from tests.contract.places import KEYS

SHARE = KEYS.share(0, AGENT)
LANES = ("high", "normal", "low")


def room_for(most: int, agent: str = AGENT) -> Plan:
    return Plan("deliver", agent, max_inbox=most)


async def queued(drive: Drive, agent: str = AGENT) -> dict[bytes, bytes]:
    """Sender -> how many of its legs are said to be queued there."""
    return await drive.place.fields(KEYS.share(0, agent))


async def test_one_sender_fills_half_of_an_inbox_and_others_get_in(drive: Drive) -> None:
    for _ in range(2):
        await drive.sent(room_for(4))
    entry, msg_id = await drive.entry(), new_id()
    _, result = await drive.send(room_for(4), entry=entry, msg_id=msg_id)
    assert (result.verdict, result.known) == ("full", "share")
    assert await drive.backend.inspect(0, msg_id) is None
    assert [each.id for each in await drive.backend.own_work("router-1", 0)] == [entry.id]
    await drive.sent(room_for(4), sender="sender-2")
    assert await queued(drive) == {b"sender-1": b"2", b"sender-2": b"1"}


async def test_the_half_of_an_odd_room_is_rounded_up(drive: Drive) -> None:
    await drive.sent(room_for(1))
    await drive.sent(room_for(3))
    _, result = await drive.send(room_for(3))
    assert (result.verdict, result.known) == ("full", "share")


async def test_the_share_is_that_of_all_lanes(drive: Drive) -> None:
    for lane in LANES:
        await drive.sent(room_for(6), lane=lane)
    _, result = await drive.send(room_for(6), lane="high")
    assert (result.verdict, result.known) == ("full", "share")
    assert await queued(drive) == {b"sender-1": b"3"}


async def test_an_inbox_that_is_full_is_so_for_everybody(drive: Drive) -> None:
    await drive.sent(room_for(1))
    _, result = await drive.send(room_for(1), sender="sender-2")
    assert (result.verdict, result.known) == ("full", "")


async def test_no_bound_of_the_inbox_is_no_bound_of_a_share(drive: Drive) -> None:
    for _ in range(5):
        await drive.sent(room_for(0))
    assert await queued(drive) == {b"sender-1": b"5"}


async def test_what_was_taken_makes_room(drive: Drive) -> None:
    await drive.sent(room_for(4))
    await drive.sent(room_for(4))
    await drive.take(free=1)
    assert await queued(drive) == {b"sender-1": b"1"}
    await drive.sent(room_for(6))
    await drive.take()
    assert await queued(drive) == {}


async def test_taken_again_after_a_lost_connection_it_counts_no_less(drive: Drive) -> None:
    await drive.sent()
    await drive.sent()
    taken = (await drive.take(free=1))[0]
    await drive.backend.take(0, AGENT, "i1", 1, [])
    assert (await drive.leg(taken.msg_id)).state is LegState.RUNNING
    assert await queued(drive) == {b"sender-1": b"1"}


async def test_a_move_counts_where_it_goes(drive: Drive) -> None:
    await drive.backend.open_inbox(0, "a2")
    await drive.sent(network_ms=1_000)
    await drive.live(20_000)
    assert (await drive.decide((await drive.work("again"))[-1], Plan("move", "a2"))).verdict == "done"
    assert (await queued(drive), await queued(drive, "a2")) == ({}, {b"sender-1": b"1"})


async def test_what_comes_back_counts_no_more_and_its_retry_does(drive: Drive) -> None:
    _, entry = await drive.returned()
    assert await queued(drive) == {}
    await drive.decide(entry, Plan("deliver", AGENT))
    assert await queued(drive) == {b"sender-1": b"1"}


@pytest.mark.parametrize("answer", [success(), retryable()])
async def test_a_reader_without_take_makes_room_with_its_answer(drive: Drive, answer: Answer) -> None:
    msg_id = await drive.sent()
    (hand,) = await drive.place.read_plain(KEYS.inbox(0, AGENT, "normal"), "agent", "plain")
    assert await queued(drive) == {b"sender-1": b"1"}, "the ledger does not know yet that it runs"
    await drive.backend.settle(0, AGENT, [Settlement(msg_id, 0, hand, answer)])
    assert await queued(drive) == {}


async def test_whatever_ends_or_returns_it_makes_room(drive: Drive) -> None:
    cancelled = await drive.sent()
    await drive.backend.cancel(0, cancelled, "sender-1", 1, 0)
    assert await queued(drive) == {}, "cancelled"
    await drive.sent(ttl_ms=1_000)
    await drive.live(2_000)
    assert await queued(drive) == {}, "its ttl was over"
    await drive.sent()
    ((hand, _),) = await drive.inbox()
    await drive.place.remove(KEYS.inbox(0, AGENT, "normal"), hand)
    await drive.live(4_000)
    assert await queued(drive) == {}, "its entry was lost"
    await drive.sent()
    assert await drive.backend.close_inbox(0, AGENT)
    assert await queued(drive) == {}, "its inbox was closed"


async def test_a_broadcast_counts_at_each_of_its_agents(drive: Drive) -> None:
    await drive.backend.open_inbox(0, "a2")
    await drive.sent(room_for(2))
    msg_id = await drive.sent(room_for(2), room_for(2, "a2"), scope="all")
    assert (await drive.leg(msg_id, 0)).state is LegState.WAITING, "its sender has its share there"
    assert (await drive.leg(msg_id, 1)).state is LegState.QUEUED
    assert (await queued(drive), await queued(drive, "a2")) == ({b"sender-1": b"1"}, {b"sender-1": b"1"})


async def test_the_count_lives_as_long_as_what_it_counts(drive: Drive) -> None:
    await drive.sent(total_ms=200_000)
    await drive.sent()
    assert 590_000 < await drive.place.ttl_ms(SHARE) <= 600_000  # deadline and window of the longer one


async def test_a_count_that_was_lost_bounds_again_and_never_falls_below_nothing(drive: Drive) -> None:
    await drive.sent(room_for(4))
    await drive.sent(room_for(4))
    await drive.place.delete(SHARE)
    await drive.sent(room_for(6))
    await drive.take()
    assert await queued(drive) == {}
    await drive.sent(room_for(12))
    assert await queued(drive) == {b"sender-1": b"1"}


async def test_a_count_that_was_lost_does_not_fall_below_nothing_beside_another(drive: Drive) -> None:
    await drive.sent()
    await drive.sent()
    await drive.place.delete(SHARE)
    await drive.sent(sender="sender-2")
    await drive.take(free=2)
    assert await queued(drive) == {b"sender-2": b"1"}
    await drive.sent()
    assert await queued(drive) == {b"sender-1": b"1", b"sender-2": b"1"}


async def test_a_count_of_another_type_stops_nothing(drive: Drive) -> None:
    await drive.place.spoil(SHARE)
    await drive.sent(room_for(4))
    assert await queued(drive) == {b"sender-1": b"1"}
    await drive.place.spoil(SHARE)
    await drive.take()
    await drive.place.spoil(SHARE)
    await drive.sent(room_for(4))
    assert await queued(drive) == {b"sender-1": b"1"}


@pytest.mark.parametrize("junk", [b"lots", b"-7", b"1.5", b""])
async def test_junk_in_a_count_is_no_count(drive: Drive, junk: bytes) -> None:
    await drive.place.set_field(SHARE, "sender-1", junk)
    await drive.sent(room_for(4))
    assert await queued(drive) == {b"sender-1": b"1"}


async def test_a_count_that_says_more_than_lies_there_blocks_nobody(drive: Drive) -> None:
    await drive.sent(room_for(4), sender="sender-2")
    await drive.place.set_field(SHARE, "sender-1", b"2")
    await drive.sent(room_for(4))
    assert await queued(drive) == {b"sender-1": b"1"}, "it was found out, and begins anew"


async def test_a_count_goes_with_its_inbox(drive: Drive) -> None:
    await drive.place.set_field(SHARE, "sender-1", b"2")
    assert await drive.backend.close_inbox(0, AGENT)
    assert await queued(drive) == {}
