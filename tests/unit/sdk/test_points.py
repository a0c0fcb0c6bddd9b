"""Which points each way of a message leaves, in order, with whom they are about, the attempt and the code; and what they carry."""

import json
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from reach import Agent, Context, Reject, Retry
from reach.testing import TestReach, wait_until
from reach_worker.logs import JsonFormatter

Way = Callable[[], Awaitable[list[dict[str, Any]]]]
#: A clock that the test moves gives all that happens at once the same moment.
ORDER = (
    "message.received",
    "message.rejected",
    "route.matched",
    "route.sent",
    "agent.received",
    "agent.responding",
    "agent.completed",
    "message.retried",
    "message.dead",
    "route.failed",
    "message.delivered",
)
SECRET = "s3cr3t-4111"
RECEIVED, MATCHED = ("message.received", "", 0, ""), ("route.matched", "", 0, "")


def worker(name: str, answers: list[Any], capability: str = "work") -> Agent:
    """Gives one of these answers after the other; raises those that are errors."""
    agent = Agent(name)

    @agent.capability(capability)
    async def work(body: Any, ctx: Context) -> Any:
        answer = answers.pop(0) if answers else "done"
        if isinstance(answer, BaseException):
            raise answer
        return answer

    return agent


async def recorded(bus: TestReach, msg_id: str) -> list[dict[str, Any]]:
    """All records of a message, in the order of their moments, then of the way."""
    records: list[dict[str, Any]] = []
    for _, batch in await bus.reach.backend.read_events(0, "0", 0, 1_000):
        records += [record for record in msgspec.json.decode(batch) if record["msg_id"] == msg_id]
    return sorted(records, key=lambda record: (record["at_us"], ORDER.index(record["point"])))


async def run(*agents: Agent, target: str = "work", after: float = 40, **options: Any) -> list[dict[str, Any]]:
    async with TestReach(*agents) as bus:
        handle = await bus.send(target, {"card": SECRET}, **options)
        await bus.advance(after)
        records: list[dict[str, Any]] = []

        async def whole() -> bool:
            """Router, agent and caller write their records by a real clock, each for itself."""
            records[:] = await recorded(bus, handle.msg_id)
            told = Counter(record["point"] for record in records)
            has_ends = any(record.get("final") for record in records) and told["message.delivered"] > 0
            has_begun = told["message.received"] + told["message.rejected"] > 0
            return has_begun and has_ends and told["agent.received"] == told["route.sent"]

        await wait_until(whole, what="all records of a message")
        return records


def points(records: list[dict[str, Any]]) -> list[tuple[str, str, int, str]]:
    return [(r["point"], r.get("agent", ""), r["attempt"], r.get("code", "")) for r in records]


async def test_a_way_without_trouble_leaves_all_seven() -> None:
    assert points(await run(worker("a", []))) == [
        RECEIVED,
        MATCHED,
        ("route.sent", "a", 1, ""),
        ("agent.received", "a", 1, ""),
        ("agent.responding", "a", 1, "ok"),
        ("agent.completed", "a", 1, "ok"),
        ("message.delivered", "a", 1, "ok"),
    ]


ENDS: dict[str, tuple[Callable[[], Awaitable[list[dict[str, Any]]]], dict[str, Any]]] = {
    "ok": (lambda: run(worker("a", [])), {"agent.completed": "ok"}),
    "rejected": (lambda: run(worker("a", [Reject("no", "no")])), {"agent.completed": "handler.rejected"}),
    "nobody": (lambda: run(worker("a", []), target="other"), {"route.failed": "route.not_found"}),
    "unknown type": (lambda: run(worker("a", []), type="no.such"), {"message.rejected": "type.unregistered"}),
    "out of attempts": (
        lambda: run(worker("a", [ValueError("x"), ValueError("x")]), max_attempts=2),
        {"message.dead": "handler.error"},
    ),
}


@pytest.mark.parametrize("way", ENDS)
async def test_every_leg_ends_once_and_its_end_carries_the_receipt(way: str) -> None:
    make, ends = ENDS[way]
    records = await make()
    final = [record for record in records if record.get("final")]
    assert {record["point"]: record.get("code") for record in final} == ends
    assert [record["receipt"]["code"] for record in final if "receipt" in record] == list(ends.values())
    received = [record for record in records if record["point"] == "message.received"]
    assert all(record["envelope"]["payload"]["body"] == {"card": SECRET} for record in received)
    assert all(record["type"] for record in records if record["point"] == "message.received")


async def test_a_retry_leaves_its_attempts() -> None:
    found = points(await run(worker("a", [ValueError("x")])))
    assert [one for one in found if one[0] in {"agent.completed", "message.retried", "route.sent"}] == [
        ("route.sent", "a", 1, ""),
        ("agent.completed", "a", 1, "handler.error"),
        ("message.retried", "a", 1, "handler.error"),
        ("route.sent", "a", 2, ""),
        ("agent.completed", "a", 2, "ok"),
    ]


async def test_no_log_line_says_what_a_message_holds(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "reach")
    answers: list[Any] = [Retry(after=1), Reject("no", "no"), {"card": SECRET}]
    for headers in ({}, {"token": SECRET}):
        await run(worker("a", list(answers)), headers=headers)
        await run(worker("a", []), target="other", headers=headers)
        await run(worker("a", []), type="no.such", headers=headers)
    lines = [JsonFormatter().format(one) for one in caplog.records if one.name.startswith("reach")]
    assert lines
    assert all(json.loads(line)["event"] for line in lines)
    assert not [line for line in lines if SECRET in line]
