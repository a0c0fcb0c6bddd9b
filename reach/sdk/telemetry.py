"""How a trace goes on: from the caller's span into the envelope, and from there around the handler.

Ids of hop records are derived, so the span of a run is known before its record is written: what a handler does lies below it, in
whatever process and by whatever provider it is exported.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Final, NamedTuple

from opentelemetry import context as otel
from opentelemetry import propagate, trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState

from reach.backend.steps import Taken
from reach.envelope.message import Envelope
from reach.envelope.rules import MAX_HEADERS_BYTES
from reach.errors import ReachError
from reach.sdk.options import Parent
from reach.tracing.naming import run_span
from reach.tracing.propagation import TraceContext, make_traceparent, parse_traceparent, trace_of

INBOX: Final = "reach.inbox"
#: the one header that tells of no trace
BAGGAGE: Final = "baggage"


class Carried(NamedTuple):
    """What an envelope carries of a trace; `headers`: baggage, and what propagators of other kinds write."""

    traceparent: str | None
    tracestate: str | None
    headers: dict[str, str]

    def beside(self, given: Mapping[str, str] | None) -> dict[str, str]:
        """The sender's own headers, and these where they have room and are not said."""
        own = dict(given or {})
        both = {**self.headers, **own}
        size = sum(len(f"{name}{value}".encode(errors="replace")) for name, value in both.items())
        return both if size <= MAX_HEADERS_BYTES else own


@contextmanager
def producing(msg_id: str, target: str, correlation_id: str, parent: Parent | None) -> Iterator[Carried]:
    """A `send` span around the sending of a message, where this process traces; below the current span, or that of the run at hand."""
    outer = _outer(parent)
    attributes = {
        "messaging.system": "reach",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": INBOX,
        "messaging.message.id": msg_id,
        "messaging.message.conversation_id": correlation_id,
        "reach.pattern": target,
    }
    tracer = _tracer(trace.get_tracer_provider())
    span = tracer.start_span(f"send {INBOX}", outer, SpanKind.PRODUCER, attributes)
    try:
        yield _carried(trace.set_span_in_context(span, outer))
    except BaseException as error:
        code = error.code if isinstance(error, ReachError) else type(error).__name__
        span.set_attribute("error.type", code)
        span.set_status(Status(StatusCode.ERROR, code))
        raise
    finally:
        span.end()


def enter_run(envelope: Envelope, taken: Taken, agent_id: str) -> None:
    """From here on this task, and the threads that it starts, are in the span of this run: call it in a task of the handler's own."""
    sent = trace_of(envelope.msg_id, envelope.traces.traceparent)
    own = run_span(envelope.msg_id, taken.leg, agent_id, taken.hand, "agent.received")
    state = parse_traceparent(envelope.traces.traceparent, envelope.traces.tracestate)
    context = _span_context(TraceContext(sent.trace_id, own, sent.flags, state.state if state is not None else ""))
    outer = propagate.extract(dict(envelope.headers), otel.Context()) if envelope.headers else otel.Context()
    otel.attach(trace.set_span_in_context(NonRecordingSpan(context), outer))


@lru_cache(maxsize=4)
def _tracer(provider: trace.TracerProvider) -> trace.Tracer:
    return provider.get_tracer("reach", schema_url="https://opentelemetry.io/schemas/1.44.0")


def _outer(parent: Parent | None) -> otel.Context:
    """The current context; in a handler, where another trace or none is current (a task of elsewhere), that of its run."""
    current = otel.get_current()
    if parent is None:
        return current
    run = parse_traceparent(parent.traceparent, parent.tracestate)
    span = trace.get_current_span(current).get_span_context()
    if run is None or (span.is_valid and f"{span.trace_id:032x}" == run.trace_id):
        return current
    return trace.set_span_in_context(NonRecordingSpan(_span_context(run)), current)


def _carried(context: otel.Context) -> Carried:
    """As `OTEL_PROPAGATORS` say. The envelope has places for the W3C's alone: a trace that others carry (b3) has these too."""
    carrier: dict[str, str] = {}
    propagate.inject(carrier, context)
    traceparent, tracestate = carrier.pop("traceparent", None), carrier.pop("tracestate", None)
    span = trace.get_current_span(context).get_span_context()
    if traceparent is None and carrier.keys() - {BAGGAGE} and span.is_valid:
        told = TraceContext(f"{span.trace_id:032x}", f"{span.span_id:016x}", span.trace_flags)
        traceparent, tracestate = make_traceparent(told), span.trace_state.to_header() or None
    return Carried(traceparent, tracestate, carrier)


def _span_context(of: TraceContext) -> SpanContext:
    state = TraceState.from_header([of.state]) if of.state else TraceState()
    return SpanContext(int(of.trace_id, 16), int(of.span_id, 16), True, TraceFlags(of.flags), state)
