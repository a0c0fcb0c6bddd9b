"""Records that hold anything but a record: no step stops at one."""

import msgspec
import pytest
import redis.asyncio

from reach.backend import open_backend
from reach.backend.keys import GROUP_AGENT, KeySpace
from reach.backend.steps import Plan, Send
from tests.contract.drive import ENVELOPE, head_of, new_id

KEYS = KeySpace("test")
INBOX = KEYS.inbox(0, "a1", "normal")
pack = msgspec.msgpack.encode
HEAD = {
    "at": 1,
    "fa": 1,
    "ta": 2**40,
    "to": 1,
    "ne": 1,
    "pr": 1,
    "op": 1,
    "ls": 1,
    "la": "normal",
    "j": "",
    "fp": "",
    "s": "s",
}
BROKEN = {
    "junk": b"\xff\xff",
    "a number": pack(7),
    "an empty head": pack([{}, {}]),
    "a tombstone that is nobody's": pack([{"tomb": True}]),
    "moments that are text": pack([HEAD | {"ta": "soon"}, {}]),
    "more legs than can be": pack([HEAD | {"ls": 1e300}, {}]),
    "legs that are not counted": pack([HEAD | {"ls": float("nan")}, {}]),
    "no leg": pack([HEAD]),
    "a leg that is text": pack([HEAD, "leg"]),
    "an empty leg": pack([HEAD, {}]),
    "a leg in no state": pack([HEAD, {"st": 7, "a": 1, "h": 5, "d": "x"}]),
    "a queued leg without an agent": pack([HEAD, {"st": "queued", "d": 0}]),
}


@pytest.mark.parametrize("broken", BROKEN)
async def test_a_broken_record_stops_no_step(raw: redis.asyncio.Redis, redis_url: str, broken: str) -> None:
    bad, good = new_id(), new_id()
    backend = open_backend(redis_url, env="test")
    await backend.open()
    try:
        await backend.open_inbox(0, "a1")
        await backend.due(0)
        entry_id = await backend.submit(0, "normal", ENVELOPE)
        (entry,) = await backend.read_work("w", [0], 10, 0)
        assert entry.id == entry_id
        send = Send(entry, good, head_of(good), (Plan("deliver", "a1"),), ENVELOPE)
        assert [result.verdict for result in await backend.route(0, [send])] == ["done"]
        await raw.set(KEYS.message(0, bad), BROKEN[broken], px=60_000)
        await raw.zadd(KEYS.due(0), {bad: 1, good: 2})
        await raw.xadd(INBOX, {"m": bad, "l": "0", "e": "x"})

        report = await backend.due(0)
        assert good in {event.msg_id for event in report.events} or report.next_at_ms > report.now_ms
        assert (await raw.zscore(KEYS.due(0), bad) or report.now_ms + 15_000) > report.now_ms
        assert [taken.msg_id for taken in (await backend.take(0, "a1", "i1", 10)).taken] == [good]
        assert len(await raw.xpending_range(INBOX, GROUP_AGENT, "-", "+", 10)) == 1
        await raw.xadd(INBOX, {"m": bad, "l": "0", "e": "x"})
        assert await backend.close_inbox(0, "a1") is False  # good runs
        assert await raw.xlen(INBOX) == 1
    finally:
        await backend.close()


async def test_a_leg_that_cannot_be_counted_with_stops_no_inbox(raw: redis.asyncio.Redis, redis_url: str) -> None:
    """It is queued, and its hand is the entry that lies there: the step goes into it, and fails in the middle."""
    bad = new_id()
    backend = open_backend(redis_url, env="test")
    await backend.open()
    try:
        await backend.open_inbox(0, "a1")
        for hand, empties in (
            ("1-1", lambda: backend.take(0, "a1", "i1", 10)),
            ("2-1", lambda: backend.close_inbox(0, "a1")),
        ):
            await raw.xadd(INBOX, {"m": bad, "l": "0", "e": "x"}, hand)
            leg = {"st": "queued", "a": "a1", "h": hand, "n": "often", "tk": "soon"}
            await raw.set(KEYS.message(0, bad), pack([HEAD | {"fa": 2**50, "ta": 2**50}, leg]), px=60_000)
            await empties()
            assert await raw.xlen(INBOX) == 0
    finally:
        await backend.close()


async def test_forged_moments_in_due_stop_nothing(raw: redis.asyncio.Redis, redis_url: str) -> None:
    backend = open_backend(redis_url, env="test")
    await backend.open()
    try:
        await raw.zadd(KEYS.due(0), {"junk": "-inf", "\x00": 0, "later": "inf"})
        await raw.hset(KEYS.tick(0), mapping={"last": "nan", "until": "inf", "start": "0x0"})
        report = await backend.due(0)
        assert (report.events, report.next_at_ms) == ((), 0)
        assert 0 < report.grace_until_ms <= report.now_ms + 15_000
    finally:
        await backend.close()
