"""Hop records -> OpenTelemetry, away from the hot path: a service reads `events` and exports one span per record.

Names, kinds and attributes follow the messaging conventions (v1.44) and those for agents; a destination is named by its template, never by
an agent. Ids come from the records, so a batch that is exported twice says the same twice. Nothing is exported for what the sender
marked as not sampled, but failures always are.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import msgspec
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from reach.errors import BackendUnavailable, ConfigError
from reach.service import Report
from reach.tracing.hops import HopRecord

INBOX, AGENT, REPLY = "reach.inbox", "reach.agent.{agent}", "reach.reply"
INSTALL = "pip install 'reachmq[otlp]'"
MISSING = f"OTEL_EXPORTER_OTLP_ENDPOINT is set, but the exporter is not installed: {INSTALL}"
LOCK_MS = 10_000
READ_BLOCK_MS = 500
MAX_BATCHES = 100


class Shape(msgspec.Struct, frozen=True):
    """How a point looks as a span. `name` may contain `{chosen}`: the agent, only where the conventions want its name."""

    name: str
    kind: SpanKind
    operation: str = ""  # messaging.operation.type
    destination: str = ""
    linked: bool = False  # to the context in which the message was made


SHAPES: Final[dict[str, Shape]] = {
    "message.received": Shape(f"process {INBOX}", SpanKind.CONSUMER, "process", INBOX, linked=True),
    "message.rejected": Shape(f"process {INBOX}", SpanKind.CONSUMER, "process", INBOX, linked=True),
    "route.matched": Shape("route", SpanKind.INTERNAL),
    "route.sent": Shape(f"send {AGENT}", SpanKind.PRODUCER, "send", AGENT),
    "agent.received": Shape(f"process {AGENT}", SpanKind.CONSUMER, "process", AGENT),
    "agent.responding": Shape("invoke_agent {chosen}", SpanKind.INTERNAL),
    "agent.completed": Shape(f"send {REPLY}", SpanKind.PRODUCER, "send", REPLY),
    "message.delivered": Shape(f"process {REPLY}", SpanKind.CONSUMER, "process", REPLY),
}
SCOPE: Final = InstrumentationScope("reach", schema_url="https://opentelemetry.io/schemas/1.44.0")
GOOD_CODES: Final = frozenset({"", "ok", "input_required"})  # a run that asks has not failed


class EventSource(Protocol):
    """What is read: the part of a backend that this service needs."""

    async def now_ms(self) -> int:
        """The moment, by the clock of the backend."""
        ...

    async def read_events(
        self, partition: int, cursor: str, block_ms: int, max_entries: int = 100
    ) -> list[tuple[str, bytes]]:
        """Batches behind the cursor: (entry id, JSON array of records)."""
        ...

    async def lock(self, service: str, owner: str, ttl_ms: int) -> bool:
        """True when `owner` has or gets the lease of a service."""
        ...


def otlp_exporter() -> SpanExporter:
    """The exporter that the `OTEL_EXPORTER_OTLP_*` variables describe (HTTP, protobuf).

    Raises:
        ConfigError: The extra is not installed; the message has the command.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ModuleNotFoundError as error:
        raise ConfigError(MISSING) from error
    return OTLPSpanExporter()


class SpanService:
    """Reads the events of some partitions and exports them. One worker at a time does it (a lease), the others stand by.

    It starts at the moment of its first run: what was recorded before belongs to whoever had the lease then.
    """

    name = "spans"
    interval_ms = 100

    def __init__(self, source: EventSource, exporter: SpanExporter, partitions: Sequence[int], owner: str) -> None:
        self._source, self._exporter, self._owner = source, exporter, owner
        self._partitions = tuple(partitions)
        self._cursors: dict[int, str] = {}
        self._resource = _resources()
        self._decode = msgspec.json.Decoder(list[msgspec.Raw]).decode
        self._decode_record = msgspec.json.Decoder(HopRecord).decode

    async def run_once(self) -> Report:
        """Export what has been recorded since the last run.

        Raises:
            BackendUnavailable: Redis or the collector is away; the same records are read again.
        """
        if not await self._source.lock("spans", self._owner, LOCK_MS):
            self._cursors.clear()
            await asyncio.sleep(READ_BLOCK_MS / 1000)
            return {}
        if not self._cursors:
            start = f"{await self._source.now_ms() - LOCK_MS}-0"
            self._cursors = dict.fromkeys(self._partitions, start)
        exported = 0
        for partition in self._partitions:
            block_ms = READ_BLOCK_MS if len(self._partitions) == 1 else 1
            batches = await self._source.read_events(partition, self._cursors[partition], block_ms, MAX_BATCHES)
            if batches:
                exported += await self._export([record for _, batch in batches for record in self._records(batch)])
                self._cursors[partition] = batches[-1][0]
        return {"exported": exported} if exported else {}

    def _records(self, batch: bytes) -> list[HopRecord]:
        """The records of a batch; what is none (a later form, junk) is left out, so that it cannot stop the rest."""
        records = []
        try:
            raws = self._decode(batch)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            return []
        for raw in raws:
            try:
                records.append(self._decode_record(raw))
            except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
                continue
        return records

    async def _export(self, records: list[HopRecord]) -> int:
        spans = [span for span in (span_of(record, self._resource) for record in records) if span is not None]
        if spans:
            result = await asyncio.to_thread(self._exporter.export, spans)
            if result is not SpanExportResult.SUCCESS:
                raise BackendUnavailable(f"the collector did not take {len(spans)} spans", code="otlp.unavailable")
        return len(spans)

    async def close(self) -> None:
        """End the exporter."""
        await asyncio.to_thread(self._exporter.shutdown)


def span_of(record: HopRecord, resource: Callable[[str], Resource]) -> ReadableSpan | None:
    """The span of a record; None for a gap, a malformed id, or what was not sampled and did not fail."""
    failed = record.code not in GOOD_CODES
    if record.point == "gap" or not (record.sampled or failed):
        return None
    try:
        context = _context(record.trace_id, record.span_id)
        parent = _context(record.trace_id, record.parent_span_id) if record.parent_span_id else None
    except ValueError:
        return None
    shape = SHAPES.get(record.point, Shape(record.point, SpanKind.INTERNAL))
    end_ns = record.at_us * 1000
    return ReadableSpan(
        name=shape.name.replace("{chosen}", record.agent),
        context=context,
        parent=parent,
        resource=resource(record.worker or record.instance),
        attributes=_attributes(record, shape),
        links=(Link(parent),) if parent is not None and shape.linked else (),
        kind=shape.kind,
        status=Status(StatusCode.ERROR, record.code) if failed else Status(StatusCode.UNSET),
        start_time=end_ns - record.duration_us * 1000,
        end_time=end_ns,
        instrumentation_scope=SCOPE,
    )


def _context(trace_id: str, span_id: str) -> SpanContext:
    context = SpanContext(
        int(trace_id, 16), int(span_id, 16), is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED)
    )
    if not context.is_valid:
        raise ValueError(span_id)
    return context


def _attributes(record: HopRecord, shape: Shape) -> dict[str, str | int | float | bool]:
    found: dict[str, str | int | float | bool] = {"reach.point": record.point, "reach.leg": record.leg}
    if shape.operation:
        found["messaging.system"] = "reach"
        found["messaging.operation.name"] = shape.operation
        found["messaging.operation.type"] = shape.operation
    if shape.destination == AGENT:
        found["messaging.destination.template"] = AGENT
        if record.agent:
            found["messaging.destination.name"] = f"reach.agent.{record.agent}"
    elif shape.destination:
        found["messaging.destination.name"] = shape.destination
    if record.point == "agent.responding":
        found["gen_ai.operation.name"] = "invoke_agent"
        found["gen_ai.provider.name"] = "reach"
    optional: dict[str, str | int] = {
        "messaging.message.id": record.msg_id,
        "messaging.message.conversation_id": record.correlation_id,
        "messaging.client.id": record.worker or record.instance,
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


def _resources() -> Callable[[str], Resource]:
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
