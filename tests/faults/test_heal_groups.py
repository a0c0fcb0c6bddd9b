"""Groups, lanes and scripts are taken away, and at last everything: two seconds later all is served again."""

import time

import pytest

from reach.backend.keys import LANES
from reach.sdk.handle import Handle
from tests.faults.healing import AGENT, IDLE_OR_LOADED, KEYS, LOADED, PRIORITIES, Town, town

GROUPS = {**KEYS.groups(0), **KEYS.groups(0, AGENT)}


async def group_is_there(at: Town, key: str, group: str) -> bool:
    return any(row["name"] == group.encode() for row in await at.raw.xinfo_groups(key))


@IDLE_OR_LOADED
async def test_every_group_in_turn(redis_url: str, loaded: bool) -> None:
    """Also while work of that lane is being done: it stays with who does it, and runs once."""
    async with town(redis_url) as at:
        held = [await at.hold(priority) for priority in (9, 5, 1)]
        if loaded:
            at.start_load()
        for key, group in GROUPS.items():
            assert await group_is_there(at, key, group)
            await at.raw.xgroup_destroy(key, group)
            await at.back(time.monotonic(), lambda key=key, group=group: group_is_there(at, key, group))  # type: ignore[misc]
        await nothing_was_taken(at, held)


async def nothing_was_taken(at: Town, held: list[Handle]) -> None:
    """What was held all the while ends well in its first run, and so does everything else."""
    await at.end()
    at.let_go.set()
    receipts = [await handle.receipt(timeout=5) for handle in held]
    assert [(receipt.code, receipt.attempts) for receipt in receipts] == [("ok", 1)] * len(held)
    assert at.codes().keys() == {"ok"}
    at.calm()


@LOADED
async def test_all_groups_at_once(redis_url: str, loaded: bool) -> None:
    async with town(redis_url) as at:
        held = [await at.hold(priority) for priority in (9, 5, 1)]
        if loaded:
            at.start_load()
            await at.traffic()
        async with at.raw.pipeline(transaction=True) as at_once:
            for key, group in GROUPS.items():
                at_once.xgroup_destroy(key, group)
            await at_once.execute()
        await at.back(time.monotonic())
        await nothing_was_taken(at, held)


@LOADED
@pytest.mark.parametrize("lane", LANES)
async def test_a_missing_lane_of_the_inbox_takes_nothing_from_the_others(
    redis_url: str, lane: str, loaded: bool
) -> None:
    """What lay in the lane is lost; what is held in the others goes on."""
    async with town(redis_url) as at:
        others = [await at.hold(priority) for name, priority in PRIORITIES.items() if name != lane]
        if loaded:
            at.start_load()
            await at.traffic()
        await at.raw.delete(KEYS.inbox(0, AGENT, lane))
        await at.back(time.monotonic())
        await at.end()
        at.let_go.set()
        assert [(await handle.receipt(timeout=5)).code for handle in others] == ["ok", "ok"]
        # What lay in it is missed when its network time is over, and by then its total may be as well.
        assert at.codes().keys() <= ({"ok", "backend.unavailable", "timeout.total"} if loaded else {"ok"})
        at.calm()


@LOADED
async def test_forgotten_scripts_are_told_again(redis_url: str, loaded: bool) -> None:
    async with town(redis_url) as at:
        held = await at.hold()
        if loaded:
            at.start_load()
        for _ in range(10):
            await at.raw.script_flush()
            await at.back(time.monotonic())
        await at.end()
        at.let_go.set()
        assert (await held.receipt(timeout=5)).code == "ok"
        assert at.codes().keys() == {"ok"}
        assert not at.lines.said
        at.calm()


@IDLE_OR_LOADED
async def test_a_flush_is_over_after_two_seconds_and_nobody_is_left_without_an_answer(
    redis_url: str, loaded: bool
) -> None:
    async with town(redis_url) as at:
        if loaded:
            at.start_load()
            await at.traffic()
        await at.raw.flushall()
        await at.back(time.monotonic())
        await at.end()
        # What was under way is forgotten with its record: the caller ends it by itself, and is told that he may ask again.
        assert at.codes().keys() <= {"ok", "timeout.total", "backend.unavailable"}
        at.calm()
