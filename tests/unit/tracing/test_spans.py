"""Records -> spans: names, kinds, parents, attributes."""

from typing import Any

import msgspec
import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode

from reach.tracing.hops import HopRecorder
from reach.tracing.joining import Joiner
from reach.tracing.record import Candidate, HopRecord, Point
from reach.tracing.spans import resources, span_of
from reach.tracing.time_base import TimeBase

MSG = "a3f2c1e4-9b8d-4f3a-8c2e-1a2b3c4d5e6f"
SENDER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
WAY: tuple[Point, ...] = (
    "message.received",
    "route.matched",
    "route.sent",
    "agent.received",
    "agent.responding",
    "agent.completed",
    "message.delivered",
)


async def recorded(traceparent: str | None, *points: Point, **fields: Any) -> list[HopRecord]:
    """What a recorder writes of these points."""
    written: list[HopRecord] = []

    async def write(partition: int, batch: bytes) -> None:
        written.extend(msgspec.json.decode(batch, type=list[HopRecord]))

    hops = HopRecorder(
        write, TimeBase(fallback_us=lambda: 9_000_000, monotonic_us=lambda: 0), node="n", worker="w1", flush_ms=0
    )
    for point in points:
        told = {
            "agent": "refund-1",
            "hand": "7-0",
            "final": point == "agent.completed",
            "correlation_id": "c",
            **fields,
        }
        hops.add(0, point, MSG, attempt=1, traceparent=traceparent, **told)
    await hops.flush()
    return written


def spans_of(records: list[HopRecord]) -> dict[str, ReadableSpan]:
    found = [span_of(record, resources(), 3) for record in records]
    return {str((span.attributes or {})["reach.point"]): span for span in found if span is not None}


async def test_the_seven_points_are_seven_spans_named_by_template() -> None:
    spans = spans_of(await recorded(SENDER, *WAY, duration_us=5))
    assert [(spans[point].name, spans[point].kind) for point in WAY] == [
        ("process reach.inbox", SpanKind.CONSUMER),
        ("route", SpanKind.INTERNAL),
        ("send reach.agent.{agent}", SpanKind.PRODUCER),
        ("process reach.agent.{agent}", SpanKind.CONSUMER),
        ("invoke_agent refund-1", SpanKind.INTERNAL),
        ("send reach.reply", SpanKind.PRODUCER),
        ("process reach.reply", SpanKind.CONSUMER),
    ]
    received = spans["message.received"]
    assert received.start_time == 9_000_000_000 - 5_000
    assert received.end_time == 9_000_000_000
    assert received.links[0].context.span_id == int("b7ad6b7169203331", 16)


async def test_parents_form_one_tree_below_the_sender() -> None:
    spans = spans_of(await recorded(SENDER, *WAY))
    parents = {
        point: next((p for p, s in spans.items() if span.parent and s.context.span_id == span.parent.span_id), "sender")
        for point, span in spans.items()
    }
    assert parents == {
        "message.received": "sender",
        "route.matched": "message.received",
        "route.sent": "message.received",
        "agent.received": "route.sent",
        "agent.responding": "agent.received",
        "agent.completed": "agent.received",
        "message.delivered": "agent.completed",
    }
    assert {span.context.trace_id for span in spans.values()} == {int("0af7651916cd43dd8448eb211c80319c", 16)}


async def test_attributes_follow_the_conventions() -> None:
    spans = spans_of(
        await recorded(None, "route.sent", "route.matched", candidates=(Candidate("b", "ready", "draining"),))
    )
    sent = spans["route.sent"]
    assert sent.parent is not None
    attributes = dict(sent.attributes or {})
    assert attributes["messaging.system"] == "reach"
    assert attributes["messaging.operation.name"] == "send"
    assert attributes["messaging.destination.template"] == "reach.agent.{agent}"
    assert attributes["messaging.destination.name"] == "reach.agent.refund-1"
    assert attributes["messaging.destination.partition.id"] == "3"
    assert attributes["messaging.message.id"] == MSG
    assert attributes["messaging.message.conversation_id"] == "c"
    assert (spans["route.matched"].attributes or {})["reach.candidate.b"] == "draining"
    assert sent.resource.attributes["service.instance.id"] == "w1"


async def test_what_failed_is_an_error_of_its_code() -> None:
    failed = spans_of(await recorded(SENDER, "route.failed", code="route.not_found"))["route.failed"]
    assert failed.status.status_code is StatusCode.ERROR
    assert (failed.attributes or {})["error.type"] == "route.not_found"


async def test_a_run_that_asks_has_not_failed() -> None:
    spans = spans_of(await recorded(SENDER, "agent.completed", code="input_required"))
    assert next(iter(spans.values())).status.status_code is StatusCode.UNSET


async def test_a_record_whose_ids_are_none_is_no_span() -> None:
    record = (await recorded(SENDER, "route.sent"))[0]
    assert spans_of([msgspec.structs.replace(record, span_id="zz")]) == {}
    assert spans_of([msgspec.structs.replace(record, trace_id="0" * 32)]) == {}
    assert spans_of([msgspec.structs.replace(record, parent_span_id="-")]) == {}


def test_a_gap_is_a_trace_of_its_own_that_nobody_can_overlook() -> None:
    gap = HopRecord(at_us=5, point="gap", msg_id="", leg=0, attempt=0, worker="w1", counts={"missing": 7})
    span = spans_of([gap])["gap"]
    assert (span.name, span.parent, span.status.status_code) == ("gap", None, StatusCode.ERROR)
    facts = {"reach.point": "gap", "reach.partition": 3, "messaging.client.id": "w1", "reach.count.missing": 7}
    assert dict(span.attributes or {}) == facts
    assert spans_of([gap])["gap"].context == span.context


def test_a_gap_says_of_which_kind_it_is_and_of_whom() -> None:
    lost = HopRecord(
        at_us=5, point="gap", msg_id="", leg=0, attempt=0, node="n1", worker="w1", code="process.lost", counts={"processes": 1}
    )  # fmt: skip
    span = spans_of([lost])["gap"]
    assert dict(span.attributes or {}) == {
        "reach.point": "gap",
        "reach.partition": 3,
        "error.type": "process.lost",
        "messaging.client.id": "w1",
        "reach.node": "n1",
        "reach.count.processes": 1,
    }
    assert span.status.description == "records may be missing"


async def test_a_record_that_knows_only_the_message_joins_its_trace() -> None:
    known = (await recorded(SENDER, "message.received"))[0]
    settled, unknown = (await recorded(None, "agent.completed", "message.expired"))[:2]
    joiner = Joiner(remembered=1)
    assert joiner.join(settled) is settled
    assert joiner.join(known) is known
    joined = joiner.join(settled)
    assert (joined.trace_id, joined.span_id) == (known.trace_id, settled.span_id)
    assert joiner.join(unknown).trace_id == known.trace_id
    joiner.join(msgspec.structs.replace(known, msg_id="another"))  # more than it remembers
    assert joiner.join(settled) is settled


def test_the_name_of_the_service_is_reach_unless_the_environment_says_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def name() -> object:
        return resources()("i").attributes["service.name"]

    monkeypatch.delenv("OTEL_SERVICE_NAME", raising=False)
    assert name() == "reach"
    monkeypatch.setenv("OTEL_SERVICE_NAME", "shop")
    assert name() == "shop"
    assert Resource.create().attributes["service.name"] == "shop"
