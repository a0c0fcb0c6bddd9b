"""OBS: a trace crosses the streams, with every hop of every attempt and the answer in it."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import Tracer

from reach import Agent, Context, Reach, Retry
from reach.backend.port import Backend
from reach.testing import TestReach, wait_until
from reach.tracing.joining import Joiner
from reach.tracing.record import HopRecord
from reach.tracing.spans import span_of
from tests.bugs.served import served
from tests.envelopes import MSG_ID, raw

ROUTED = ["message.received", "route.matched", "route.sent"]
RUN = ["agent.received", "agent.responding", "agent.completed"]


@pytest.fixture
def tracer() -> Iterator[Tracer]:
    """Of the caller's own program."""
    provider = TracerProvider()
    yield provider.get_tracer("test")
    provider.shutdown()


def agents() -> list[Agent]:
    """One that works, fails once, asks the other; and the other."""
    front, back = Agent("front", concurrency=16), Agent("back", concurrency=16)
    waited: set[str] = set()

    async def work(body: Any, ctx: Context) -> Any:
        if body == "fail once" and ctx.attempt == 1:
            raise ConnectionError("once")
        if body == "ask":
            return (await ctx.request("agent_id:back", "asked")).code
        if body == "never":
            raise ConnectionError("always")
        if body == "later" and ctx.msg_id not in waited:
            waited.add(ctx.msg_id)
            raise Retry(after=0.1)
        return body

    for agent in (front, back):
        agent.capability("work")(work)
    return [front, back]


async def records_of(backend: Backend, msg_id: str) -> list[HopRecord]:
    batches = await backend.read_events(0, "0-0", 1, 10_000)
    found = [record for _, batch in batches for record in msgspec.json.decode(batch, type=list[HopRecord])]
    return [record for record in found if msg_id in {record.msg_id, record.correlation_id}]


def orphans(found: list[HopRecord], caller: str) -> list[str]:
    """Whose parent is nobody."""
    known = {record.span_id for record in found} | {caller}
    return [record.point for record in found if record.parent_span_id not in known]


def check(found: list[HopRecord], trace_id: str, caller: str) -> None:
    """All in the caller's trace; every parent is the caller's span or that of another hop; and so are the exported spans."""
    joiner = Joiner()  # as the exporter does: who takes over, or gives up, knows no more than the message
    found = [joiner.join(record) for record in found]
    assert {record.trace_id for record in found} == {trace_id}
    assert orphans(found, caller) == []
    spans = [span_of(record, lambda _: Resource({}), 0) for record in found]
    assert {f"{span.context.trace_id:032x}" for span in spans if span is not None and span.context} == {trace_id}


@asynccontextmanager
async def traced(tracer: Tracer) -> AsyncIterator[tuple[str, str]]:
    """Inside of a span of the caller's: its trace and its own id."""
    with tracer.start_as_current_span("caller") as span:
        context = span.get_span_context()
        yield f"{context.trace_id:032x}", f"{context.span_id:016x}"


@pytest.mark.parametrize(
    ("body", "options", "legs", "attempts"),
    [
        ("ok", {}, 1, 1),
        ("fail once", {}, 1, 2),
        ("later", {}, 1, 1),
        ("ask", {}, 1, 1),
        ("ok", {"scope": "all"}, 2, 1),
        ("ok", {"delay": 0.2}, 1, 1),
        ("ok", {"order_key": "account 7"}, 1, 1),
        ("never", {"max_attempts": 1}, 1, 1),
        ("nowhere", {}, 1, 0),
    ],
    ids=[
        "a request",
        "a retry",
        "a wait",
        "what a handler asks",
        "a broadcast",
        "a delay",
        "a line",
        "a dead letter",
        "no route",
    ],
)
async def test_B125_one_trace_crosses_every_stream(
    redis_url: str, tracer: Tracer, body: str, options: dict[str, Any], legs: int, attempts: int
) -> None:
    async with served(redis_url, *agents()) as reach:
        async with traced(tracer) as (trace_id, caller):
            target = {"ask": "agent_id:front", "nowhere": "agent_id:nobody"}.get(body, "capability:work")
            handle = await reach.send(target, body, timeout=20, **options)
            receipts = await handle.receipts(20)
        assert len(list(receipts)) == legs
        check(await whole(reach.backend, handle.msg_id, legs * attempts, caller), trace_id, caller)
        if body == "never":
            await again(reach, handle.msg_id)
            check(await whole(reach.backend, handle.msg_id, 2, caller), trace_id, caller)


async def whole(backend: Backend, msg_id: str, runs: int, caller: str) -> list[HopRecord]:
    """The records of a conversation once its receipts have been told."""

    async def told() -> bool:
        found = await records_of(backend, msg_id)
        points: list[str] = [record.point for record in found]
        if orphans(found, caller):
            return False  # what is to come, or never does: then `check` says whose
        if not runs:
            return {"message.received", "route.failed", "message.delivered"} <= set(points)
        return {*ROUTED, *RUN} <= set(points) and all(points.count(point) >= runs for point in RUN)

    await wait_until(told, timeout=20)
    return await records_of(backend, msg_id)


async def again(reach: Reach, msg_id: str) -> None:
    """Send its dead letter once more."""
    letter = await reach.dead_letters.find(msg_id)
    assert letter is not None
    assert (await reach.dead_letters.requeue(letter)).sent


async def test_B125_what_is_taken_over_from_the_dead_stays_in_its_trace(tracer: Tracer) -> None:
    first, second = Agent("front"), Agent("back")

    @first.capability("hold")
    async def hold() -> None:
        await asyncio.Event().wait()

    @second.capability("hold")
    async def answer() -> str:
        return "done"

    async with TestReach(first) as bus:
        async with traced(tracer) as (trace_id, caller):
            handle = await bus.send("capability:hold", timeout=60)
        await bus.settle()
        await bus.start(second)
        await bus.kill(first)
        await bus.advance(20)
        receipt = await handle.receipt(0)
        assert (receipt.output, receipt.attempts) == ("done", 2)
        found = await whole(bus.newest.backend, handle.msg_id, 1, caller)
        assert "agent.lost" in {record.code for record in found}
        assert {record.attempt for record in found if record.point == "agent.received"} == {1, 2}
        check(found, trace_id, caller)


@pytest.mark.parametrize(
    "text", ["", "junk", "00-0-0-00", f"00-{'0' * 32}-{'1' * 16}-01", f"ff-{'1' * 32}-{'1' * 16}-01", "00-\r\n-\x00-01"]
)
async def test_B125_a_traceparent_that_is_none_is_ignored(text: str) -> None:
    async with TestReach(*agents()) as bus:
        envelope = raw(target={"pattern": "capability:work"}, traces={"traceparent": text})
        await bus.client_backend.backend.submit(0, "normal", envelope)
        await bus.advance(1)
        found = await whole(bus.newest.backend, MSG_ID, 1, "")
        check(found, MSG_ID.replace("-", ""), "")
