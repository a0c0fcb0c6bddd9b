"""Records -> spans: names, kinds, parents; and the service that exports them."""

from typing import Any

import msgspec
import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from reach.errors import BackendUnavailable
from reach.tracing.hops import Candidate, HopRecorder, Point
from reach.tracing.spans import SpanService
from reach.tracing.time_base import TimeBase

MSG = "a3f2c1e4-9b8d-4f3a-8c2e-1a2b3c4d5e6f"
SENDER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
UNSAMPLED = SENDER[:-1] + "0"
WAY: tuple[Point, ...] = (
    "message.received",
    "route.matched",
    "route.sent",
    "agent.received",
    "agent.responding",
    "agent.completed",
    "message.delivered",
)


class Events:
    """The events of some partitions, in memory."""

    def __init__(self) -> None:
        self.stored: dict[int, list[tuple[str, bytes]]] = {}
        self.holder = ""

    async def write(self, partition: int, batch: bytes) -> None:
        entries = self.stored.setdefault(partition, [])
        entries.append((f"{20_000 + len(entries)}-0", batch))

    async def now_ms(self) -> int:
        return 25_000

    async def lock(self, service: str, owner: str, ttl_ms: int) -> bool:
        assert (service, ttl_ms > 0) == ("spans", True)
        self.holder = self.holder or owner
        return self.holder == owner

    async def read_events(
        self, partition: int, cursor: str, block_ms: int, max_entries: int = 100
    ) -> list[tuple[str, bytes]]:
        after = tuple(map(int, cursor.split("-")))
        found = [entry for entry in self.stored.get(partition, []) if tuple(map(int, entry[0].split("-"))) > after]
        return found[:max_entries]


async def spans_of(events: Events) -> dict[str, ReadableSpan]:
    exporter = InMemorySpanExporter()
    service = SpanService(events, exporter, [0, 1], "w1")
    await service.run_once()
    return {str((span.attributes or {})["reach.point"]): span for span in exporter.get_finished_spans()}


async def recorded(traceparent: str | None, *points: Point, **fields: Any) -> Events:
    events = Events()
    hops = HopRecorder(
        events.write, TimeBase(fallback_us=lambda: 9_000_000, monotonic_us=lambda: 0), node="n", worker="w1", flush_ms=0
    )
    for point in points:
        hops.add(0, point, MSG, attempt=1, traceparent=traceparent, agent="refund-1", correlation_id="c", **fields)
    await hops.flush()
    return events


async def test_the_seven_points_are_seven_spans_named_by_template() -> None:
    spans = await spans_of(await recorded(SENDER, *WAY, duration_us=5))
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
    spans = await spans_of(await recorded(SENDER, *WAY))
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
    spans = await spans_of(
        await recorded(None, "route.sent", "route.matched", candidates=(Candidate("b", "ready", "draining"),))
    )
    sent = spans["route.sent"]
    assert sent.parent is not None
    attributes = dict(sent.attributes or {})
    assert attributes["messaging.system"] == "reach"
    assert attributes["messaging.operation.name"] == "send"
    assert attributes["messaging.destination.template"] == "reach.agent.{agent}"
    assert attributes["messaging.destination.name"] == "reach.agent.refund-1"
    assert attributes["messaging.message.id"] == MSG
    assert attributes["messaging.message.conversation_id"] == "c"
    assert (spans["route.matched"].attributes or {})["reach.candidate.b"] == "draining"
    assert sent.resource.attributes["service.instance.id"] == "w1"


async def test_what_is_not_sampled_is_skipped_unless_it_failed() -> None:
    assert await spans_of(await recorded(UNSAMPLED, "route.sent")) == {}
    failed = await spans_of(await recorded(UNSAMPLED, "route.failed", code="route.not_found"))
    assert failed["route.failed"].status.status_code is StatusCode.ERROR
    assert (failed["route.failed"].attributes or {})["error.type"] == "route.not_found"


async def test_a_run_that_asks_has_not_failed() -> None:
    spans = await spans_of(await recorded(SENDER, "agent.completed", code="input_required"))
    assert next(iter(spans.values())).status.status_code is StatusCode.UNSET


async def test_junk_in_events_stops_nothing() -> None:
    events = await recorded(SENDER, "route.sent")
    good = events.stored[0].pop()[1]
    record = msgspec.json.decode(good)[0]
    bad = [
        b"\xff",
        b"[" * 5_000,
        b'{"a":1}',
        b"[1,null,{}]",
        msgspec.json.encode([{**record, "span_id": "zz"}, {**record, "trace_id": "0" * 32}]),
    ]
    for batch in [*bad, good]:
        await events.write(0, batch)
    assert list(await spans_of(events)) == ["route.sent"]


class Refusing(SpanExporter):
    def __init__(self) -> None:
        self.seen = 0

    def export(self, spans: Any) -> SpanExportResult:
        self.seen += len(spans)
        return SpanExportResult.FAILURE if self.seen == 1 else SpanExportResult.SUCCESS

    def shutdown(self) -> None: ...


async def test_a_collector_that_is_away_loses_nothing_and_only_the_leaseholder_exports() -> None:
    events = await recorded(SENDER, "route.sent")
    exporter = Refusing()
    service = SpanService(events, exporter, [0], "w1")
    with pytest.raises(BackendUnavailable):
        await service.run_once()
    await service.run_once()
    await service.run_once()
    assert exporter.seen == 2
    other = SpanService(events, exporter, [0], "w2")
    await other.run_once()
    assert exporter.seen == 2


def test_the_name_of_the_service_is_reach_unless_the_environment_says_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def name() -> object:
        return SpanService(Events(), Refusing(), [0], "w")._resource("i").attributes["service.name"]

    monkeypatch.delenv("OTEL_SERVICE_NAME", raising=False)
    assert name() == "reach"
    monkeypatch.setenv("OTEL_SERVICE_NAME", "shop")
    assert name() == "shop"
    assert Resource.create().attributes["service.name"] == "shop"
