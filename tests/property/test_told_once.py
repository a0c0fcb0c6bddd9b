"""Whatever happens, each end of a leg is told once to somebody who records it: to the caller of the step, else to the routers by an entry.

Random walks on the memory backend alone: what the servers do is the same, down to the bytes (test_backends_agree).
"""

import json
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, cast

import pytest

from reach.backend.memory_backend.store import MessageRecord
from reach.backend.steps import Again, Decision, DueReport, RouteResult, Send, Settlement
from tests.contract.places import KEYS
from tests.property import walk
from tests.property.in_a_line import BETWEEN, in_a_line
from tests.property.in_stages import MEANWHILE, in_stages
from tests.property.one_move import live, move, pause
from tests.property.trio import Trio
from tests.property.unsure import SECONDS, asking
from tests.property.walk import Tally, explore, follow
from tests.property.walker import plan_of

EXAMPLES = 100
#: who heard of an end in these walks
HEARD: Counter[str] = Counter()


class End(NamedTuple):
    """Of a leg."""

    msg_id: str
    leg: int
    round: int


class Told(Trio):
    """The memory backend; after each step who is told of what has ended in it is counted."""

    async def _do(self, name: str, words: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> object:
        before, old = self._records(), {entry_id for entry_id, _ in await self.entries(KEYS.receipts(0))}
        answer = await super()._do(name, words, args, kwargs)
        entries = [fields for entry_id, fields in await self.entries(KEYS.receipts(0)) if entry_id not in old]
        after = self._records()
        ends = set(_ended(before, after))
        told = [end for end in _to_the_caller(name, args, answer, after) if end in ends]
        asked = [end for fields in entries if b"t" in fields for end in _to_a_router(fields)]
        count = Counter([*told, *asked])
        assert {end: count[end] for end in ends} == dict.fromkeys(ends, 1), f"{words}: {told} and {asked} of {ends}"
        gone = [end for end in asked if end not in ends and end.round == _round(after, end.msg_id)]
        assert not gone, f"{words}: nothing of {gone} has ended"
        HEARD.update([f"{name}, caller"] * len(told) + [f"{name}, routers"] * len(asked))
        return answer

    def _records(self) -> dict[str, MessageRecord]:
        store, prefix = self._memory.store, KEYS.message(0, "")
        keys = filter(lambda key: key.startswith(prefix), store.keys())
        found = {key.removeprefix(prefix): store.record(key) for key in keys}
        return {msg_id: record for msg_id, record in found.items() if record is not None}


def _ended(before: dict[str, MessageRecord], after: dict[str, MessageRecord]) -> Iterator[End]:
    """What had not ended, or not in this round."""
    for msg_id, record in after.items():
        old = before.get(msg_id)
        for number, leg in record.legs.items():
            was = old.legs.get(number) if old is not None else None
            if (
                leg.finished_at_ms
                and leg.state != "observed"
                and (was is None or was.hand != leg.hand or not was.finished_at_ms)
            ):
                yield End(msg_id, number, record.head.round)


def _to_the_caller(name: str, args: Sequence[Any], answer: object, after: dict[str, MessageRecord]) -> Iterator[End]:
    """The ends that the caller of a step records, by what it has asked for and what it was answered."""
    if name == "route" and isinstance(answer, list):
        for decision, result in zip(args[1], answer, strict=True):
            yield from _by_a_router(decision, result, after)
    elif name == "settle" and isinstance(answer, list):
        settlements = cast("Sequence[Settlement]", args[2])
        for each, verdict in zip(settlements, answer, strict=True):
            if verdict == "done" and each.records:
                yield End(each.msg_id, each.leg, _round(after, each.msg_id))
    elif name == "due" and isinstance(answer, DueReport) and len(args) == 1:
        for event in answer.events:
            if event.what in {"expired", "answered"}:
                yield End(event.msg_id, event.leg, _round(after, event.msg_id))


def _by_a_router(decision: Decision, result: RouteResult, after: dict[str, MessageRecord]) -> Iterator[End]:
    """As `reach.delivery.trail` does it."""
    if isinstance(decision, Send):
        told: Iterable[int] = [n for n, plan in enumerate(decision.plans) if plan.act == "finish"]
        if result.verdict == "error" or result.known == "tombstone":
            told = range(16)
        elif result.known == "overloaded" and result.hands:
            told = [0]
        elif result.known or result.verdict != "done":
            told = []
        yield from (End(decision.msg_id, n, _round(after, decision.msg_id)) for n in told)
    elif isinstance(decision, Again) and result.known != "silent":
        plans = {decision.leg: decision.plan, **decision.others}
        told = [n for n, plan in plans.items() if plan.act == "finish"] if result.verdict == "done" else []
        told = [decision.leg] if result.verdict == "error" else told
        yield from (End(decision.msg_id, n, _round(after, decision.msg_id)) for n in told)


def _to_a_router(fields: dict[bytes, bytes]) -> Iterator[End]:
    told = json.loads(fields[b"t"])
    if told["ended"]:
        yield End(fields[b"m"].decode(), int(fields[b"l"]), told["round"])


def _round(records: dict[str, MessageRecord], msg_id: str) -> int:
    return records[msg_id].head.round if msg_id in records else 0


@pytest.fixture(autouse=True)
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Walks are made on a backend that counts. Streams are lost all the time, each with a warning."""
    monkeypatch.setattr(walk, "Trio", Told)
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


def test_every_end_of_a_random_walk_is_told_once() -> None:
    HEARD.clear()
    explore({}, Tally(), EXAMPLES)
    print(HEARD)
    heard = HEARD.keys()
    assert {"route, caller", "settle, caller", "due, caller"} <= heard
    assert {"route, routers", "cancel, routers"} <= heard


async def test_every_end_of_a_leg_that_has_an_answer_is_told_once() -> None:
    HEARD.clear()
    for scope in ("one", "all"):
        for odd in ("wants", "wants soon"):
            for second in SECONDS:
                for late in ([pause(300_000), move("callers_due", 1)], live(15, None)):
                    await follow({}, [(asking(1, scope, odd, second), None), (late, None)], Tally())
    heard = HEARD.keys()
    assert {"route, caller", "settle, caller", "due, caller", "due, routers", "settle, routers"} <= heard
    assert {"cancel, routers", "close_inbox, routers", "take, routers"} <= heard


@pytest.mark.parametrize("odd", ["stages", "stages short", "stages gone past"])
async def test_every_end_behind_a_stage_is_told_once(odd: str) -> None:
    for between in MEANWHILE:
        await follow({}, [(in_stages(odd, between), None), (live(15, None), None)], Tally())


@pytest.mark.parametrize("odd", ["line", "line short", "line later"])
async def test_every_end_in_a_line_is_told_once(odd: str) -> None:
    for between in BETWEEN:
        await follow({}, [(in_a_line(odd, between), None), (live(15, None), None)], Tally())


async def test_an_end_of_which_nobody_is_told_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The count is about something: the steps of a backend that tells nobody fail it."""
    sent = move("send", "w1", 1, [plan_of("deliver", "a1")], "one", "b1", "s1", "", False)
    monkeypatch.setattr("reach.backend.memory_backend.partition.Partition.append_untold", lambda *_: None)
    with pytest.raises(AssertionError, match="cancel"):
        await follow({}, [([sent, move("cancel", 1, "s1", 1)], None)], Tally())
