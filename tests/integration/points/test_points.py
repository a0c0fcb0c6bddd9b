"""Every flow leaves the records that it should, on memory and on servers, and their spans are one tree."""

import re
from collections import Counter

import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan

from reach.backend.private_server import PrivateServer
from reach.tracing.record import HopRecord
from reach.tracing.spans import span_of
from tests.faults.stages import MemoryStage, RedisStage, Stage
from tests.integration.points import flows_again, flows_all, flows_ends, flows_one, flows_plain
from tests.integration.points.table import FLOWS, Flow, line_of
from tests.integration.points.town import SENDER, Town

__all__ = ["flows_again", "flows_all", "flows_ends", "flows_one", "flows_plain"]

pytestmark = pytest.mark.leaves_work(why="who was killed is a consumer until it is swept, 10 minutes later")

RUN = {"agent.received", "agent.responding", "agent.completed"}
#: where nobody may know the agent, or the correlation_id is not known: the envelope could not be read
DOOR = {"message.received", "message.rejected", "route.matched"}


@pytest.mark.parametrize("name", sorted(FLOWS))
async def test_a_flow_in_memory(name: str) -> None:
    await play(FLOWS[name], MemoryStage())


@pytest.mark.parametrize("name", sorted(FLOWS))
async def test_a_flow_on_a_server(name: str, server: PrivateServer) -> None:
    await play(FLOWS[name], RedisStage(server.url))


async def play(flow: Flow, stage: Stage) -> None:
    """Let it happen, and look at what was recorded."""
    async with Town(stage=stage) as town:
        await flow.act(town)
        records = await town.records()
        assert [line_of(town.kind(one), one) for one in records] == list(flow.points)
        faults = [f"{one.point}: {fault}" for one in records for fault in field_faults(one)]
        assert not faults, "\n".join(faults)
        check_trees(records, flow.traces)


def field_faults(one: HopRecord) -> list[str]:
    """What is missing of the fields that a record of this point must have."""
    found = [] if re.fullmatch(r"[0-9a-f-]{36}", one.msg_id) else ["msg_id"]
    found += [] if re.fullmatch(r"[0-9a-f]{32}", one.trace_id) else ["trace_id"]
    found += [] if re.fullmatch(r"[0-9a-f]{16}", one.span_id) else ["span_id"]
    wanted = {"at_us": one.at_us, "worker": one.worker}
    if one.point != "message.rejected":
        wanted |= {"correlation_id": one.correlation_id}
    if one.point in RUN:
        wanted |= {"attempt": one.attempt, "agent": one.agent, "instance": one.instance, "node": one.node}
        is_of_a_run = not (
            one.final and one.worker.startswith("router")
        )  # else with what an earlier one has answered, or is derived
        wanted |= {"hand": one.hand, "type": one.type} if is_of_a_run and one.instance != "p1.1" else {}
    if one.point in RUN - {"agent.received"}:
        wanted |= {"code": one.code}
    if one.point in {"route.sent", "message.moved"}:
        wanted |= {"hand": one.hand, "attempt": one.attempt, "agent": one.agent}
    if one.point == "message.received":
        wanted |= {"source": one.source, "pattern": one.pattern, "type": one.type, "envelope": one.left_out}
    if one.point == "route.matched":
        wanted |= {"pattern": one.pattern, "counts": one.counts}
    if one.point == "message.delivered" or one.final:
        wanted |= {"code": one.code}
    return found + [name for name, value in wanted.items() if not value]


def check_trees(records: list[HopRecord], traces: int) -> None:
    """As many trees as there are traces: no orphan, one root, no two spans with one id; and said twice they are the same."""
    spans = [(one, span(one)) for one in records]
    assert len({one.trace_id for one in records}) == traces
    ids = Counter((one.trace_id, one.span_id) for one in records)
    assert [name for name, count in ids.items() if count > 1] == []
    sender = SENDER.split("-")[2]
    roots = Counter(one.trace_id for one in records if not one.parent_span_id or one.parent_span_id == sender)
    copies = sum(one.parent_span_id == sender and one.code == "duplicate" for one in records)
    assert roots.total() - copies == traces == len(roots)
    for one, made in spans:
        assert (made.end_time or 0) >= (made.start_time or 0) > 0
        is_known = (one.trace_id, one.parent_span_id) in ids
        assert is_known or one.parent_span_id in {"", sender}, f"{one.point} is an orphan"
        linked = one.point in {"message.received", "message.rejected"} and bool(one.parent_span_id)
        assert [link.context.span_id for link in made.links] == ([int(one.parent_span_id, 16)] if linked else [])
        assert span(one).to_json() == made.to_json()


def span(one: HopRecord) -> ReadableSpan:
    """As it is exported."""
    made = span_of(one, lambda _: Resource({}), 0)
    assert made is not None, one.point
    return made
