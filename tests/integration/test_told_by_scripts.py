"""What scripts tell the routers at `receipts`: anybody may write such an entry, and a router may die before it is done with one."""

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import msgspec
import pytest
from opentelemetry.sdk.resources import Resource

from reach.backend.port import Backend
from reach.backend.steps import Settlement, WorkEntry
from reach.events.traced import trace_of
from reach.tracing.record import HopRecord
from reach.tracing.spans import span_of
from tests.contract.drive import success
from tests.contract.places import KEYS, Place
from tests.integration.spine import Spine, envelope, still_serves, until

UNKNOWN = "a3f2c1e4-9b8d-4f3a-8c2e-1a2b3c4d5e6f"
TOLD = {
    "at": 1,
    "round": 1,
    "attempt": 1,
    "agent": "a",
    "instance": "a.1",
    "code": "ok",
    "status": "success",
    "ended": True,
}


def told(**other: Any) -> bytes:
    return json.dumps(TOLD | other).encode()


#: name -> what nothing is recorded of
ODD: dict[str, bytes] = {
    "nothing": b"",
    "no JSON": b"at 1",
    "cut off": told()[:-1],
    "no text": b"\x00\xff\xfe",
    "no UTF-8": told(code="X").replace(b"X", b"\xc3\x28"),
    "half a character": told().replace(b'"ok"', b'"\\ud800"'),
    "null": b"null",
    "a list": b"[1,2]",
    "a number": b"7",
    "deep": b"[" * 200_000,
    "deep inside": told(more="X").replace(b'"X"', b"[" * 5_000 + b"]" * 5_000),
    "no moment": b"{}",
    "a moment of text": told(at="1"),
    "a broken moment": told(at=1.5),
    "a moment before all": told(at=-1),
    "a moment beyond all": told(at=10**30),
    "a moment of 64 bits": told(at=2**63),
    "endless digits": told().replace(b'"at": 1', b'"at": ' + b"9" * 100_000),
    "a beginning beyond all": told(began=10**30),
    "a beginning before all": told(began=-(10**30)),
    "rounds": told(round=10**30),
    "attempts": told(attempt=-(10**30)),
    "an agent that is a list": told(agent=["a"]),
    "an endless agent": told(agent="a" * 1_000_000),
    "an endless instance": told(instance="a" * 1_000_000),
    "a code that is none": told(code={"code": "ok"}),
    "another status": told(status="maybe"),
    "a status of numbers": told(status=1),
    "perhaps ended": told(ended="yes"),
}

#: name -> what can be recorded, and is
STRANGE: dict[str, bytes] = {
    "more than we know": told(more={"a": [1]}),
    "little": b'{"at":1}',
    "said twice": b'{"at":1,"at":2}',
    "an endless code": told(code="c" * 1_000_000),
    "a code for a terminal": told(code="\x1b[2J\x00"),
    "no moment at all": told(at=0),
    "the end of all moments": told(at=2**53, began=2**53),
    "it began after its end": told(began=2**53),
    "nobody": told(agent=None, instance=None, status=None, code=None, ended=False),
}


async def tell(spine: Spine, msg_id: str, data: bytes, hand: str = "1-1", **more: bytes) -> None:
    await spine.place.append(KEYS.receipts(0), {"m": msg_id.encode(), "l": b"0", "h": hand.encode(), "t": data, **more})


async def test_what_says_nothing_is_passed_over(spine: Spine) -> None:
    await spine.register("refund-1", "refund")
    msg_id = await spine.send(envelope())
    hand, _ = await spine.work("refund-1")
    for data in ODD.values():
        await tell(spine, UNKNOWN, data)
        await tell(spine, msg_id, data, hand)
    for fields in (
        {"t": told()},
        {"m": b"\xff", "l": b"0", "h": b"1-1", "t": told()},
        {"m": UNKNOWN.encode(), "t": told()},
    ):
        await spine.place.append(KEYS.receipts(0), fields)
    await spine.quiet()
    assert await spine.mail(msg_id) == []
    await spine.settle(msg_id, hand, {"status": "success"})
    await spine.receipt(msg_id)
    points = Counter(record["point"] for record in await spine.events() if record["msg_id"] in {UNKNOWN, msg_id})
    assert set(points.values()) == {1}, points
    await still_serves(spine)


@pytest.mark.parametrize("name", sorted(STRANGE))
async def test_what_is_strange_makes_a_record_and_decides_nothing(spine: Spine, name: str) -> None:
    await spine.register("refund-1", "refund")
    msg_id = await spine.send(envelope())
    hand, _ = await spine.work("refund-1")
    await spine.quiet()
    before = await spine.backend.inspect(0, msg_id)
    for one in (UNKNOWN, msg_id):
        await tell(spine, one, STRANGE[name], hand)
    await spine.quiet()
    after = await spine.backend.inspect(0, msg_id)
    assert before is not None
    assert after is not None
    assert (after.head, after.legs) == (before.head, before.legs)
    assert await spine.mail(msg_id) == []
    told_of = [record for record in await spine.events() if record["msg_id"] == UNKNOWN]
    assert told_of
    assert len(json.dumps(told_of)) < 5_000
    assert all(span_of(_hop(one), lambda _: Resource({}), 0) is not None for one in told_of)
    await spine.settle(msg_id, hand, {"status": "success", "output": 7})
    assert (await spine.receipt(msg_id))["output"] == 7
    await still_serves(spine)


async def test_an_answer_with_such_a_word_beside_it_is_an_answer(spine: Spine) -> None:
    """Whoever appends a receipt may put fields of its own beside it."""
    await spine.register("refund-1", "refund")
    msg_id = await spine.send(envelope())
    hand, _ = await spine.work("refund-1")
    await tell(spine, msg_id, b"mine", hand, r=b'{"status":"success","output":7}')
    assert (await spine.receipt(msg_id))["output"] == 7
    await spine.quiet()


# ---------------------------------------------------------------- told twice


async def settled(spine: Spine, msg_id: str, hand: str) -> None:
    settlement = Settlement(msg_id, 0, hand, success(), "refund-1.1", records=False)
    assert await spine.backend.settle(0, "refund-1", [settlement]) == ["done"]


async def cancelled(spine: Spine, msg_id: str, hand: str) -> None:
    assert (await spine.backend.cancel(0, msg_id, "tester", 1, 60_000)).what == "cancelled"


def never_done(backend: Backend) -> None:
    """From now on it stands still where it would be done with an entry."""

    async def stand(partition: int, entries: Iterable[WorkEntry]) -> None:
        await asyncio.Event().wait()

    backend.finish_work = stand  # type: ignore[method-assign]


@pytest.mark.leaves_work(why="the dead router is a consumer until it is swept")
@pytest.mark.parametrize(("end", "points"), [(settled, 4), (cancelled, 2)])
async def test_a_router_that_dies_before_it_is_done_tells_the_same_once_more(
    place: Place, end: Callable[[Spine, str, str], Awaitable[None]], points: int
) -> None:
    async with Spine(place, await place.connect(), "w1") as first:
        await first.register("refund-1", "refund")
        msg_id = await first.send(envelope())
        hand, _ = await first.work("refund-1")
        await first.quiet()
        before = len([one for one in await first.events() if one["msg_id"] == msg_id])
        never_done(first.backend)
        await end(first, msg_id, hand)
        once = await _records(first, msg_id, before + points)
    await place.pass_time(6_000)
    async with Spine(place, await place.connect(), "w2") as second:
        await second.quiet()
        twice = await _records(second, msg_id, before + 2 * points)
    spans = Counter(_span(one) for one in twice)
    assert sorted(spans.values()) == [1] * before + [2] * points
    assert {_span(one) for one in once} == spans.keys()
    tree = trace_of("any", once)
    assert trace_of("any", twice) == tree
    assert (tree.records, len(tree.messages[0].runs)) == (before + points, 1)


async def _records(spine: Spine, msg_id: str, count: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []

    async def there() -> bool:
        found[:] = [one for one in await spine.events() if one["msg_id"] == msg_id]
        return len(found) >= count

    await until(there, f"{count} records")
    assert len(found) == count
    return found


def _hop(record: dict[str, Any]) -> HopRecord:
    return msgspec.json.decode(json.dumps(record), type=HopRecord)


def _span(record: dict[str, Any]) -> str:
    """As it is exported, whichever worker has told it."""
    made = span_of(_hop(record), lambda _: Resource({}), 0)
    assert made is not None
    said = json.loads(made.to_json())
    del said["attributes"]["messaging.client.id"]
    return json.dumps(said, sort_keys=True)
