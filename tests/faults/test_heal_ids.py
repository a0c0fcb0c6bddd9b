"""Entry ids of the far future in every stream, the last possible one among them: nobody is deaf or mute for it, and nothing is lost."""

import json
import time
from collections.abc import Awaitable, Callable

import pytest

from reach.backend.keys import TABLE
from tests.faults.healing import KEYS, LOADED, Town, town
from tests.faults.spots import SPOTS

LAST = "18446744073709551615-18446744073709551615"
YEAR_5138 = "99999999999999-0"
JUNK = {"junk": "1"}
LEFT = r"reach:\{dev(\.0)?\}:.*"


async def by_entry(at: Town, key: str, entry_id: str) -> None:
    await at.raw.xadd(key, JUNK, id=entry_id)


async def by_setid(at: Town, key: str, entry_id: str) -> None:
    if not await at.raw.exists(key):
        await by_entry(at, key, "*")
    await at.raw.execute_command("XSETID", key, entry_id)


HARMS: dict[str, tuple[Callable[[Town, str, str], Awaitable[None]], str]] = {
    "entry-last": (by_entry, LAST),
    "entry-5138": (by_entry, YEAR_5138),
    "setid-last": (by_setid, LAST),
    "setid-5138": (by_setid, YEAR_5138),
}
STREAMS = [row.name for row in TABLE if row.types == ("stream",)]


async def takes_entries(at: Town, key: str) -> bool:
    """Anybody can append to it, and his entry has an id of now."""
    try:
        entry_id = await at.raw.xadd(key, JUNK)
    except Exception:  # noqa: BLE001 - what Redis says then has no class of its own
        return False
    await at.raw.xdel(key, entry_id)
    return int(entry_id.partition(b"-")[0]) < time.time() * 1000 + 60_000


#: streams that are wound back at once; an inbox is so only when no hand of the future lies in it, and serves all the same
WOUND_BACK = {"ingress", "again", "receipts", "control", "mail"}


@pytest.mark.leaves(LEFT, why="what it spoils need not all be mended when it ends")
@LOADED
@pytest.mark.parametrize("how", HARMS)
async def test_every_stream_in_turn(redis_url: str, how: str, loaded: bool) -> None:
    harm, entry_id = HARMS[how]
    async with town(redis_url) as at:
        held = [await at.hold(priority) for priority in (9, 5, 1)]
        if loaded:
            at.start_load()
        for name in STREAMS:
            for key in await SPOTS[name].find(at):
                await harm(at, key, entry_id)
                more = [lambda key=key: takes_entries(at, key)] if name in WOUND_BACK else []
                await at.back(time.monotonic(), *more)
        await at.end()
        at.let_go.set()
        receipts = [await handle.receipt(timeout=5) for handle in held]
        assert [(receipt.code, receipt.attempts) for receipt in receipts] == [("ok", 1)] * 3
        assert at.codes().keys() == {"ok"}
        at.calm()


async def recorded(at: Town, msg_id: str) -> bool:
    """Whether every point of a message's way has come to the events."""
    points = {
        record["point"]
        for _, fields in await at.raw.xrange(KEYS.events(0))
        for record in json.loads(fields.get(b"b", b"[]"))
        if record["msg_id"] == msg_id
    }
    return {"message.received", "route.sent", "agent.completed", "message.delivered"} <= points


@pytest.mark.parametrize("how", HARMS)
async def test_hop_records_go_on_and_dead_letters_stay(redis_url: str, how: str) -> None:
    harm, entry_id = HARMS[how]
    async with town(redis_url) as at:
        await at.call("fail", max_attempts=1)
        await harm(at, KEYS.events(0), entry_id)
        handle = await at.reach.send("capability:work", 1)
        assert (await handle.receipt(timeout=5)).code == "ok"
        await at.back(time.monotonic(), lambda: recorded(at, handle.msg_id))
        assert len(await at.reach.backend.dead_letters(0)) == 1
        at.calm()


@pytest.mark.parametrize("how", HARMS)
async def test_a_dead_letter_is_kept_beside_those_that_were_there(redis_url: str, how: str) -> None:
    harm, entry_id = HARMS[how]
    async with town(redis_url) as at:
        first = await at.reach.request("capability:fail", 1, max_attempts=1)
        await harm(at, KEYS.dead(0), entry_id)
        second = await at.reach.request("capability:fail", 1, max_attempts=1)
        kept = {fields[b"m"].decode() for _, fields in await at.reach.backend.dead_letters(0) if b"m" in fields}
        assert kept == {first.msg_id, second.msg_id}
        assert second.details["dead_letter"]
        at.calm()
