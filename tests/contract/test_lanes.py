"""Taking of one lane alone, and seeing in which lanes something waits: how one instance keeps the order over several partitions."""

import pytest

from reach.backend.keys import GROUP_AGENT, LANES
from reach.backend.steps import Plan
from tests.contract.drive import AGENT, Drive
from tests.contract.places import KEYS


@pytest.mark.parametrize("only", LANES)
async def test_of_one_lane_alone_nothing_else_is_taken_and_no_other_cursor_told(drive: Drive, only: str) -> None:
    for lane in LANES:
        for _ in range(2):
            await drive.sent(lane=lane)
    result = await drive.backend.take(0, AGENT, "i1", 10, only=only)
    assert [taken.lane for taken in result.taken] == [only] * 2
    assert set(result.cursors) == {only}
    assert len((await drive.backend.take(0, AGENT, "i1", 10)).taken) == 4


async def test_no_more_of_it_than_there_are_free_slots(drive: Drive) -> None:
    for _ in range(3):
        await drive.sent(lane="low")
    assert len((await drive.backend.take(0, AGENT, "i1", 2, only="low")).taken) == 2


async def test_a_lane_that_is_gone_is_told_by_who_asks_for_it(drive: Drive) -> None:
    await drive.place.delete(KEYS.inbox(0, AGENT, "low"))
    assert (await drive.backend.take(0, AGENT, "i1", 1, only="high")).gone is False
    assert (await drive.backend.take(0, AGENT, "i1", 1, only="low")).gone is True


async def test_what_was_handed_over_comes_again_whatever_lane_is_asked_for(drive: Drive) -> None:
    taken = await drive.running(lane="normal")
    result = await drive.backend.take(0, AGENT, "i1", 1, [], only="high")
    assert [one.hand for one in result.taken] == [taken.hand]


async def test_a_lane_in_which_something_lies_that_nobody_has_taken_waits(drive: Drive) -> None:
    assert await drive.backend.waiting(AGENT) == {lane: set() for lane in LANES}
    await drive.sent(lane="low")
    await drive.sent(lane="high")
    assert await drive.backend.waiting(AGENT) == {"high": {0}, "normal": set(), "low": {0}}
    await drive.backend.take(0, AGENT, "i1", 1)
    assert await drive.backend.waiting(AGENT) == {"high": set(), "normal": set(), "low": {0}}
    await drive.sent(lane="high")
    assert (await drive.backend.waiting(AGENT))["high"] == {0}


@pytest.mark.parametrize("how", ["deleted", "spoilt", "without its group"])
async def test_a_lane_that_cannot_be_seen_into_is_to_be_looked_at(drive: Drive, how: str) -> None:
    key = KEYS.inbox(0, AGENT, "normal")
    if how == "spoilt":
        await drive.place.spoil(key)
    elif how == "deleted":
        await drive.place.delete(key)
    else:
        await drive.place.drop_group(key, GROUP_AGENT)
    assert await drive.backend.waiting(AGENT) == {"high": set(), "normal": {0}, "low": set()}
    await drive.backend.open_inbox(0, AGENT)
    assert await drive.backend.waiting(AGENT) == {lane: set() for lane in LANES}


async def test_every_partition_is_looked_into(drive: Drive) -> None:
    await drive.backend.set_meta("meta", "partitions", b"3")
    three = await drive.place.connect()
    await drive.keep_box()
    for partition in range(3):
        await three.open_inbox(partition, AGENT)
    await drive.sent(Plan("deliver", AGENT), lane="normal")
    assert await three.waiting(AGENT) == {"high": set(), "normal": {0}, "low": set()}
    await drive.place.append(KEYS.inbox(2, AGENT, "high"), {"m": b"1"})
    assert await three.waiting(AGENT) == {"high": {2}, "normal": {0}, "low": set()}
    await three.take(2, AGENT, "i1", 1)  # what nobody routed is dropped
    assert await three.waiting(AGENT) == {"high": set(), "normal": {0}, "low": set()}
