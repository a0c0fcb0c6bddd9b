"""Which services make a role. A worker runs those of all its roles in one process."""

import asyncio
import gc
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from reach.backend.port import Backend
from reach.clock import SystemClock
from reach.errors import ConfigError
from reach.events.archiver import Archiver
from reach.events.opening import open_store
from reach.events.receipt_hook import Address, ReceiptHook
from reach.events.store import EventStore
from reach.registry.env_gauges import EnvGauges
from reach.registry.semantics import open_model
from reach.registry.watcher import Watcher
from reach.registry.written import Looking
from reach.sdk.routers import NEEDED, router_services
from reach.service import Service
from reach.settings import Settings, otlp_wanted
from reach.tracing.contents import asked_contents
from reach.tracing.hops import HopRecorder
from reach.tracing.otlp_metrics import observed, otlp_metrics_wanted, otlp_reader
from reach.tracing.readings import Reading, Readings
from reach.tracing.time_base import TimeBase
from reach.tracing.vital_signs import LoopWatch, ServerWatch, build, of_recorder

if TYPE_CHECKING:
    from reach.events.span_service import SpanService

#: So long the last numbers may take: whoever stops a worker waits for it, and a collector may be away.
LAST_EXPORT_MS = 1_000
OBSERVERS = frozenset({Archiver.name, ReceiptHook.name, "spans"})


class Work(NamedTuple):
    """What a worker does. `needed`: the services without whose progress it is not ready; `closers` are awaited at the end.

    `observers`: services that only read what others have done. A worker that routes is ready without them.
    """

    services: Sequence[Service]
    needed: frozenset[str]
    observers: frozenset[str]
    partitions: Sequence[int]
    hops: HopRecorder
    closers: Sequence[Callable[[], Awaitable[None]]]


def make_work(
    backend: Backend, settings: Settings, *, worker_id: str, environ: Mapping[str, str], readings: Readings
) -> Work:
    """The services of the worker's roles, on an open backend. What they count, `readings` tell.

    Raises:
        ConfigError: A partition to serve that there is not, or an extra that is missing.
    """
    partitions = _partitions(settings.serve_partitions, backend.partitions)
    services: list[Service] = []
    closers: list[Callable[[], Awaitable[None]]] = []
    hops = HopRecorder(
        backend.record,
        TimeBase(),
        node=settings.node_id,
        worker=worker_id,
        ask_ms=backend.now_ms,
        contents=asked_contents(backend),
        tell=backend.tell_recorder,
    )
    services += _watches(backend, hops, readings)
    if "router" in settings.roles:
        services += router_services(
            backend,
            hops,
            partitions,
            worker_id,
            clock=SystemClock(),
            rng=random.Random(),  # noqa: S311 - chance for choosing, no secret
            max_batch=settings.max_batch,
            max_envelope_bytes=settings.max_envelope_bytes,
            token_keys=settings.token_keys,
            model=open_model(settings.semantic),
        )
        watcher = next(one for one in services if isinstance(one, Watcher))
        watcher.when_loaded = gc.freeze
        services += [Looking(watcher), _env_gauges(backend, watcher, worker_id, readings)]
    if settings.event_store and "archiver" in settings.roles:
        store = open_store(settings.event_store, days=settings.event_days)
        archiver = Archiver(backend, store, partitions, worker_id)
        services.append(archiver)
        readings.plays("archiver")
        readings.add(lambda: _of_archiver(archiver, store))
        closers.append(archiver.close)
    if settings.receipt_hook and "archiver" in settings.roles:
        hook = ReceiptHook(backend, Address(settings.receipt_hook, settings.receipt_hook_token), partitions, worker_id)
        services.append(hook)
        readings.plays("receipt hook")
        readings.add(lambda: _of_hook(hook))
        closers.append(hook.close)
    if otlp_wanted(environ):
        # Imported here: it loads the SDK of OpenTelemetry. All partitions, since a trace lies in many.
        from reach.events.span_service import open_spans

        spans = open_spans(backend, settings, worker_id, environ)
        services.append(spans)
        readings.plays("exporter")
        readings.add(lambda: _of_spans(spans))
        closers.append(spans.close)
    if otlp_metrics_wanted(environ):
        provider = observed(readings, otlp_reader(environ))
        closers.append(lambda: asyncio.to_thread(provider.shutdown, LAST_EXPORT_MS))
    names = frozenset(service.name for service in services)
    # No router goes out of service because a store is full: messages are never held up by who observes them.
    needed = names & NEEDED or names & {Archiver.name}
    return Work(services, needed, names & OBSERVERS, partitions, hops, closers)


def _watches(backend: Backend, hops: HopRecorder, readings: Readings) -> list[Service]:
    """Services that look at this process, for `readings`."""
    loop_watch, server_watch = LoopWatch(SystemClock()), ServerWatch(backend.now_ms, SystemClock())
    readings.count(hops.tally)
    for source in (build, loop_watch, server_watch, of_recorder(hops)):
        readings.add(source)
    return [loop_watch, server_watch]


def _env_gauges(backend: Backend, watcher: Watcher, worker_id: str, readings: Readings) -> EnvGauges:
    gauges = EnvGauges(backend, watcher, worker_id, SystemClock())
    readings.plays("router")
    readings.add(gauges)
    return gauges


def _of_archiver(archiver: Archiver, store: EventStore) -> Iterable[Reading]:
    yield Reading("reach_archived_total", archiver.kept)
    yield Reading("reach_archive_missed_total", archiver.missed)
    yield Reading("reach_archive_failures_total", archiver.failures)
    yield Reading("reach_archive_refused_total", store.refused)
    yield Reading("reach_archive_lost_total", archiver.unreadable, ("unreadable",))
    yield Reading("reach_archive_lost_total", store.lost, ("refused",))


def _of_spans(spans: "SpanService") -> Iterable[Reading]:
    yield Reading("reach_spans_exported_total", spans.exported)
    yield Reading("reach_spans_refused_total", spans.refused)
    yield Reading("reach_spans_missed_total", spans.missed)


def _of_hook(hook: ReceiptHook) -> Iterable[Reading]:
    yield Reading("reach_receipts_posted_total", hook.posted)
    yield Reading("reach_receipts_given_up_total", hook.given_up)
    yield Reading("reach_receipts_missed_total", hook.missed)


def _partitions(wanted: Sequence[int] | None, there_are: int) -> Sequence[int]:
    if wanted is None:
        return range(there_are)
    beyond = [number for number in wanted if number >= there_are]
    if beyond:
        raise ConfigError(f"--serve-partitions: {', '.join(map(str, beyond))}, but there are {there_are}, from 0")
    return tuple(wanted)
