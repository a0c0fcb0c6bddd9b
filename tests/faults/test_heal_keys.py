"""Any one key is deleted, or holds something else: two seconds later everything is served, and nobody has noticed more than he must."""

import asyncio
import time

import pytest

from reach.backend.key_faults import row_of
from reach.backend.keys import TABLE, Row
from tests.faults.healing import AGENT, IDLE_OR_LOADED, Town, town
from tests.faults.spots import SPOTS, Spot

LEFT = r"reach:\{dev(\.0)?\}:.*"
ROWS = {row.name: row for row in TABLE}
BREAKS = ("deleted", "spoilt")
LOOKED_AT_S = 6.0  # longer than from one beat to the next


async def break_key(at: Town, key: str, row: Row, how: str) -> None:
    async with at.raw.pipeline(transaction=True) as at_once:
        at_once.delete(key)
        if how == "spoilt" and "string" in row.types:
            at_once.sadd(key, "not what it should be")
        elif how == "spoilt":
            at_once.set(key, "not what it should be")
        await at_once.execute()


async def walk(at: Town, row: Row, spot: Spot, how: str) -> None:
    """Break each key of a row, see that all is well again, and that what lay there can be had anew."""
    for key in await spot.find(at):
        found = row_of(key)
        assert found is not None, key
        assert found.name == row.name, key

        async def right(key: str = key) -> bool:
            return (await at.raw.type(key)).decode() in row.types

        await break_key(at, key, row, how)
        await at.back(time.monotonic(), *([right] if spot.returns else []))
    await spot.find(at)


def test_each_row_of_the_table_is_broken() -> None:
    """A new kind of key needs a place here: how it is met, and what becomes of it."""
    assert SPOTS.keys() == ROWS.keys()


@pytest.mark.leaves(LEFT, why="what it spoils need not all be mended when it ends")
@pytest.mark.parametrize("how", BREAKS)
async def test_every_key_in_turn_under_load(redis_url: str, how: str) -> None:
    async with town(redis_url) as at:
        at.start_load()
        for name, spot in SPOTS.items():
            await walk(at, ROWS[name], spot, how)
        await at.end()
        at.calm()


@pytest.mark.leaves(LEFT, why="what it spoils need not all be mended when it ends")
@pytest.mark.long
@IDLE_OR_LOADED
@pytest.mark.parametrize("how", BREAKS)
@pytest.mark.parametrize("name", ROWS)
async def test_one_row_alone(redis_url: str, name: str, how: str, loaded: bool) -> None:
    """Nothing that an earlier fault has healed helps here, and the beats and looks of some seconds come after it."""
    async with town(redis_url) as at:
        if loaded:
            at.start_load()
            await at.traffic()
        await walk(at, ROWS[name], SPOTS[name], how)
        until = time.monotonic() + LOOKED_AT_S
        while time.monotonic() < until:
            assert (await at.call()).code == "ok"
            await asyncio.sleep(0.1)
        await at.end()
        at.calm()
        await at.back(time.monotonic(), lambda: agents_are_known(at))


async def agents_are_known(at: Town) -> bool:
    snapshot = await at.reach.backend.snapshot()
    return AGENT in snapshot.agents and bool((await at.reach.backend.registration(AGENT))[1])
