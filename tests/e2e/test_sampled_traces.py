"""Outside dev a worker exports all that failed, was tried again or was slow, each conversation whole, and of the rest the share."""

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from reach import Agent, Context, Reach, Reject, Retry
from reach.backend.keys import KeySpace
from reach.backend.private_server import PrivateServer
from reach.testing import wait_until
from reach.tracing.sampling import is_in_share
from tests.collector import Collector
from tests.e2e.conftest import StartWorker
from tests.e2e.plain import Wire, fields_of
from tests.lag import lagging

pytestmark = [pytest.mark.processes, pytest.mark.leaves_work(why="the group of the spans stays, as in life")]

ENV = "prod"
EVENTS = KeySpace(ENV).events(0)
SHARE, SLOW_S = 0.3, 4.0
QUICK = 40
#: every point of a message that one run has answered
WHOLE = {
    "process reach.inbox",
    "route",
    "send reach.agent.{agent}",
    "process reach.agent.{agent}",
    "invoke_agent clerk",
    "send reach.reply",
    "process reach.reply",
}


def clerk(go: asyncio.Event) -> Agent:
    agent = Agent("clerk", concurrency=64)

    @agent.capability("file")
    async def file() -> str:
        return "filed"

    @agent.capability("refuse")
    async def refuse() -> None:
        raise Reject("no", "not this one")

    @agent.capability("again")
    async def again(ctx: Context) -> str:
        if ctx.attempt == 1:
            raise Retry("not yet")
        return "filed"

    @agent.capability("hide")
    async def hide(ctx: Context) -> str:
        receipt = await ctx.request("capability:refuse")
        return f"in spite of {receipt.code}"

    @agent.capability("wait")
    async def wait() -> str:
        await go.wait()
        return "at last"

    return agent


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as made:
        yield made


def names_by_trace(collector: Collector) -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for span in list(collector.spans):
        found[span.trace_id.hex()].add(span.name)
    return found


def all_decided(client: Wire) -> bool:
    """Whether nothing of what is recorded is unread or held by whoever exports."""
    last = fields_of(client("XINFO", "STREAM", EVENTS))["last-generated-id"]
    groups: list[dict[str, Any]] = [fields_of(one) for one in client("XINFO", "GROUPS", EVENTS)]
    return [(one["pending"], one["last-delivered-id"]) for one in groups if one["name"] == b"spans"] == [(0, last)]


async def test_what_failed_was_retried_or_slow_is_exported_whole_and_of_the_rest_the_share(
    server: PrivateServer, client: Wire, start_worker: StartWorker, collector: Collector
) -> None:
    worker = start_worker(
        *("--trace-share", str(SHARE), "--trace-slow-ms", str(round(SLOW_S * 1000))),
        REACH_ENV=ENV,
        OTEL_EXPORTER_OTLP_ENDPOINT=collector.url,
    ).wait_ready()
    go, loop = asyncio.Event(), asyncio.get_running_loop()
    async with (
        lagging() as lag,
        clerk(go).running(server.url, ENV),
        Reach.connect(server.url, env=ENV, agent_id="boss") as reach,
    ):

        async def trace_of(pattern: str) -> tuple[str, str, float]:
            """Its trace, its code, and how long it took at most, s."""
            began = loop.time()
            receipt = await reach.request(pattern, timeout=60)
            return receipt.msg_id.replace("-", ""), receipt.code, loop.time() - began

        slow = asyncio.create_task(trace_of("capability:wait"))
        quick = await asyncio.gather(*(trace_of("capability:file") for _ in range(QUICK)))
        odd = [await trace_of(f"capability:{name}") for name in ("refuse", "again", "hide")]
        # It is slow before it has ended: what is seen of it then is what lets it end.
        await wait_until(lambda: len(names_by_trace(collector)) > 0, 30)
        held = {trace for trace, *_ in [*quick, *odd]}
        await wait_until(lambda: any(trace not in held for trace in names_by_trace(collector)), 30, "the slow one")
        go.set()
        odd.append(await slow)
    assert [code for _, code, _ in odd] == ["handler.rejected", "ok", "ok", "ok"]
    assert {code for _, code, _ in quick} == {"ok"}
    worth = {trace for trace, *_ in odd}
    shared = {trace for trace, *_ in quick if is_in_share(trace, SHARE)}

    def whole() -> bool:
        names = names_by_trace(collector)
        return all(names[trace] >= WHOLE for trace in worth | shared)

    await wait_until(whole, 30, "whole traces")
    await wait_until(lambda: all_decided(client), 30, "a decision about all")
    assert len(shared) < QUICK
    late = {trace for trace, _, took_s in quick if took_s + lag.allowed_s > SLOW_S}
    assert set(names_by_trace(collector)) - worth - shared <= late
    spans = [span.name for span in collector.spans if span.trace_id.hex() == odd[2][0]]
    assert spans.count("process reach.inbox") == 2, "the conversation of which one message failed is there with both"
    assert worker.drain()[0] == 0
