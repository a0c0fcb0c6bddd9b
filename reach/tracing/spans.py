"""One hop record -> one OpenTelemetry span.

Names, kinds and attributes follow the messaging conventions (v1.44) and those for agents; a destination is named by its template, never by
an agent. Ids come from the records, so a batch that is exported twice says the same twice.
"""

import hashlib
from collections.abc import Callable
from typing import Final

import msgspec
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from reach.tracing.record import LOST_PROCESS, HopRecord
from reach.tracing.sampling import GOOD_CODES

INBOX, AGENT, REPLY = "reach.inbox", "reach.agent.{agent}", "reach.reply"


class Shape(msgspec.Struct, frozen=True):
    """How a point looks as a span. `name` may contain `{chosen}`: the agent, only where the conventions want its name."""

    name: str
    kind: SpanKind
    operation: str = ""  # messaging.operation.type
    destination: str = ""
    linked: bool = False  # to the context in which the message was made
    group: str = ""  # of consumers


SHAPES: Final[dict[str, Shape]] = {
    "message.received": Shape(f"process {INBOX}", SpanKind.CONSUMER, "process", INBOX, linked=True, group="routers"),
    "message.rejected": Shape(f"process {INBOX}", SpanKind.CONSUMER, "process", INBOX, linked=True, group="routers"),
    "route.matched": Shape("route", SpanKind.INTERNAL),
    "route.sent": Shape(f"send {AGENT}", SpanKind.PRODUCER, "send", AGENT),
    "agent.received": Shape(f"process {AGENT}", SpanKind.CONSUMER, "process", AGENT, group="agent"),
    "agent.responding": Shape("invoke_agent {chosen}", SpanKind.INTERNAL),
    "agent.completed": Shape(f"send {REPLY}", SpanKind.PRODUCER, "send", REPLY),
    "message.delivered": Shape(f"process {REPLY}", SpanKind.CONSUMER, "process", REPLY),
}
#: their parent is a span of another process
FROM_AFAR: Final = frozenset({"message.received", "message.rejected", "agent.received", "message.delivered"})
SCOPE: Final = InstrumentationScope("reach", schema_url="https://opentelemetry.io/schemas/1.44.0")


def span_of(record: HopRecord, resource: Callable[[str], Resource], partition: int) -> ReadableSpan | None:
    """The span of a record; None where it lies in no trace, or an id is malformed. A gap is a trace of its own."""
    if record.point == "gap":
        return _gap(record, resource, partition)
    try:
        context = _context(record.trace_id, record.span_id)
        parent = None
        if record.parent_span_id:
            parent = _context(record.trace_id, record.parent_span_id, is_remote=record.point in FROM_AFAR)
    except ValueError:
        return None
    failed = record.code not in GOOD_CODES
    shape = SHAPES.get(record.point, Shape(record.point, SpanKind.INTERNAL))
    end_ns = record.at_us * 1000
    return ReadableSpan(
        name=shape.name.replace("{chosen}", record.agent),
        context=context,
        parent=parent,
        resource=resource(record.worker or record.instance),
        attributes=_attributes(record, shape, partition),
        links=(Link(parent),) if parent is not None and shape.linked else (),
        kind=shape.kind,
        status=Status(StatusCode.ERROR, record.code) if failed else Status(StatusCode.UNSET),
        start_time=end_ns - record.duration_us * 1000,
        end_time=end_ns,
        instrumentation_scope=SCOPE,
    )


def _gap(record: HopRecord, resource: Callable[[str], Resource], partition: int) -> ReadableSpan:
    """Records are missing here: whoever looks at traces must see it there."""
    told = {
        "error.type": record.code,
        "messaging.client.id": record.worker or record.instance,
        "reach.node": record.node,
    }
    why = "records may be missing" if record.code == LOST_PROCESS else "records are missing"
    said = f"{partition}|{record.at_us}|{record.worker}|{record.instance}".encode()
    return ReadableSpan(
        name="gap",
        context=_context(
            hashlib.blake2b(said, digest_size=16).hexdigest(), hashlib.blake2b(said, digest_size=8).hexdigest()
        ),
        resource=resource(record.worker or record.instance),
        attributes={
            "reach.point": "gap",
            "reach.partition": partition,
            **{name: value for name, value in told.items() if value},
            **{f"reach.count.{name}": number for name, number in record.counts.items()},
        },
        kind=SpanKind.INTERNAL,
        status=Status(StatusCode.ERROR, why),
        start_time=(record.at_us - record.duration_us) * 1000,
        end_time=record.at_us * 1000,
        instrumentation_scope=SCOPE,
    )


def _context(trace_id: str, span_id: str, *, is_remote: bool = False) -> SpanContext:
    context = SpanContext(int(trace_id, 16), int(span_id, 16), is_remote, TraceFlags(TraceFlags.SAMPLED))
    if not context.is_valid:
        raise ValueError(span_id)
    return context


def _attributes(record: HopRecord, shape: Shape, partition: int) -> dict[str, str | int | float | bool]:
    found: dict[str, str | int | float | bool] = {"reach.point": record.point, "reach.leg": record.leg}
    if shape.operation:
        found["messaging.system"] = "reach"
        found["messaging.operation.name"] = shape.operation
        found["messaging.operation.type"] = shape.operation
        found["messaging.destination.partition.id"] = str(partition)
    if shape.destination == AGENT:
        found["messaging.destination.template"] = AGENT
        if record.agent:
            found["messaging.destination.name"] = f"reach.agent.{record.agent}"
    elif shape.destination:
        found["messaging.destination.name"] = shape.destination
    if record.point == "agent.responding":
        found["gen_ai.operation.name"] = "invoke_agent"
        found["gen_ai.provider.name"] = "reach"
        found["gen_ai.conversation.id"] = record.correlation_id
    optional: dict[str, str | int] = {
        "messaging.message.id": record.msg_id,
        "messaging.message.conversation_id": record.correlation_id,
        "messaging.client.id": record.worker or record.instance,
        "messaging.consumer.group.name": shape.group,
        "gen_ai.agent.name": record.agent,
        "error.type": "" if record.code in GOOD_CODES else record.code,
        "reach.attempt": record.attempt,
        "reach.pattern": record.pattern,
        "reach.strategy": record.strategy,
        "reach.chosen": record.chosen,
        "reach.via": record.via,
        "reach.schema": record.schema,
        "reach.node": record.node,
    }
    found.update((name, value) for name, value in optional.items() if value)
    found.update({f"reach.count.{name}": number for name, number in record.counts.items()})
    for candidate in record.candidates:
        found[f"reach.candidate.{candidate.agent}"] = (
            candidate.reason or candidate.filter or f"{candidate.score or 0:.4g}"
        )
    return found


def resources() -> Callable[[str], Resource]:
    """One resource per process that recorded: they share all but `service.instance.id`."""
    shared = Resource.create()
    if str(shared.attributes.get("service.name", "")).startswith("unknown_service"):
        shared = shared.merge(Resource({"service.name": "reach"}))
    made: dict[str, Resource] = {}

    def resource(instance: str) -> Resource:
        if instance not in made:
            if len(made) >= 1_000:
                made.clear()
            made[instance] = shared.merge(Resource({"service.instance.id": instance or "unknown"}))
        return made[instance]

    return resource
