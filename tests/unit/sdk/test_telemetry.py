"""The caller's span is the parent of what it sends, and a run's span that of what its handler does."""

import asyncio
import contextvars
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from opentelemetry import baggage, context, propagate, trace
from opentelemetry.propagators.composite import CompositePropagator
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, StatusCode, TraceFlags, TraceState

from reach import Agent, Context
from reach.errors import EnvelopeError
from reach.testing import TestReach, wait_until

CALLER = SpanContext(0xAF7, 0xB7, True, TraceFlags(1), TraceState([("vendor", "x")]))


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """Of a provider that this process has."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    yield exporter
    provider.shutdown()


def looking(seen: list[Any]) -> tuple[Agent, Agent]:
    """They note what is current in their handlers."""
    agent, passer = Agent("looker"), Agent("passer")

    def note(ctx: Context) -> None:
        seen.append((ctx, trace.get_current_span().get_span_context(), dict(baggage.get_all())))

    @agent.capability("look")
    async def look(ctx: Context) -> None:
        note(ctx)

    @agent.capability("look.thread")
    def look_in_a_thread(ctx: Context) -> None:
        note(ctx)

    @passer.capability("pass")
    async def pass_on(ctx: Context) -> None:
        note(ctx)
        await asyncio.create_task(ctx.ask("capability:look"), context=contextvars.Context())

    return agent, passer


def in_caller() -> Any:
    return trace.use_span(NonRecordingSpan(CALLER))


@pytest.mark.parametrize("capability", ["look", "look.thread"])
async def test_a_handler_is_in_the_span_that_its_record_will_have(capability: str) -> None:
    seen: list[Any] = []
    agents = looking(seen)
    async with TestReach(*agents) as bus:
        with in_caller():
            await bus.ask(f"capability:{capability}")
        await bus.advance(1)

        def batches() -> list[bytes]:
            stream = bus.store.stream("reach:{dev.0}:events")
            return [fields[b"b"] for _, fields in stream.all()] if stream is not None else []

        await wait_until(lambda: any(b"agent.received" in batch for batch in batches()))
        records = [one for batch in batches() for one in msgspec.json.decode(batch)]
        (taken,) = [one["span_id"] for one in records if one["point"] == "agent.received"]
    _, current, _ = seen[0]
    assert (current.trace_id, current.is_remote, current.trace_flags) == (0xAF7, True, 1)
    assert f"{current.span_id:016x}" == taken
    assert current.trace_state.to_header() == "vendor=x"
    assert not trace.get_current_span().get_span_context().is_valid


async def test_without_any_provider_the_callers_span_is_the_parent_and_children_go_on_in_its_trace() -> None:
    seen: list[Any] = []
    async with TestReach(*looking(seen)) as bus:
        with in_caller():
            await bus.ask("capability:pass")
        await bus.ask("capability:look")
    (outer, run, _), (inner, below, _), (alone, own, _) = seen
    assert outer._envelope.traces.traceparent == f"00-{0xAF7:032x}-{0xB7:016x}-01"
    assert outer._envelope.traces.tracestate == "vendor=x"
    # Sent by a task of elsewhere, in which no span is current.
    assert inner._envelope.traces.traceparent == f"00-{0xAF7:032x}-{run.span_id:016x}-01"
    assert below.trace_id == 0xAF7
    assert alone._envelope.traces.traceparent is None
    assert f"{own.trace_id:032x}" == alone.msg_id.replace("-", "")


async def test_each_send_is_a_producer_span_below_the_current_one(exporter: InMemorySpanExporter) -> None:
    seen: list[Any] = []
    async with TestReach(*looking(seen)) as bus:
        with in_caller():
            await bus.ask("capability:pass")
    by_parent = {span.parent.span_id: span for span in sends(exporter)}
    first, second = by_parent[0xB7], by_parent[seen[0][1].span_id]
    assert (first.name, first.kind) == ("send reach.inbox", SpanKind.PRODUCER)
    assert dict(first.attributes or {}) == {
        "messaging.system": "reach",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "reach.inbox",
        "messaging.message.id": seen[0][0].msg_id,
        "messaging.message.conversation_id": seen[0][0].msg_id,
        "reach.pattern": "capability:pass",
    }
    assert seen[0][0]._envelope.traces.traceparent.split("-")[2] == f"{first.context.span_id:016x}"
    assert (second.attributes or {})["messaging.message.conversation_id"] == seen[0][0].msg_id


def sends(exporter: InMemorySpanExporter) -> list[Any]:
    spans: tuple[ReadableSpan, ...] = exporter.get_finished_spans()
    return [span for span in spans if span.name == "send reach.inbox"]


async def test_what_is_not_sent_is_an_error(exporter: InMemorySpanExporter) -> None:
    async with TestReach(*looking([])) as bus:
        with pytest.raises(EnvelopeError):
            await bus.send("no pattern at all!")
    (span,) = sends(exporter)
    assert span.status.status_code is StatusCode.ERROR
    assert span.attributes["error.type"] == span.status.description == "target.bad_pattern"


async def test_what_is_not_sampled_stays_so(monkeypatch: pytest.MonkeyPatch) -> None:
    provider = TracerProvider(sampler=ALWAYS_OFF)
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    seen: list[Any] = []
    async with TestReach(*looking(seen)) as bus:
        await bus.ask("capability:look")
    assert not int(seen[0][0]._envelope.traces.traceparent[-2:], 16) & 1
    assert not seen[0][1].trace_flags & 1


async def test_baggage_travels_where_it_has_room_and_a_sender_may_say_it_itself() -> None:
    seen: list[Any] = []
    async with TestReach(*looking(seen)) as bus:
        token = context.attach(baggage.set_baggage("tenant", "a"))
        await bus.ask("capability:look", headers={"mine": "1"})
        await bus.ask("capability:look", headers={"baggage": "tenant=b"})
        await bus.ask("capability:look", headers={"mine": "1" * 4090})
        context.detach(token)
        await bus.ask("capability:look")
    assert [found for _, _, found in seen] == [{"tenant": "a"}, {"tenant": "b"}, {}, {}]
    assert seen[0][0].headers == {"mine": "1", "baggage": "tenant=a"}


async def test_no_propagators_carry_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(propagate, "_HTTP_TEXT_FORMAT", CompositePropagator([]))
    seen: list[Any] = []
    async with TestReach(*looking(seen)) as bus:
        with in_caller():
            await bus.ask("capability:look")
    assert seen[0][0]._envelope.traces.traceparent is None
