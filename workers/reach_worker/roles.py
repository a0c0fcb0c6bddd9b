"""Which services make a role. A worker runs those of all its roles in one process."""

import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

from reach.backend.port import Backend
from reach.delivery.due import DueService
from reach.delivery.judge import Judge
from reach.delivery.router import Router
from reach.delivery.trail import Trail
from reach.errors import ConfigError
from reach.registry.reaper import Reaper
from reach.registry.registrar import Registrar
from reach.registry.watcher import Watcher
from reach.routing.decide import Chooser
from reach.routing.index import CapabilityIndex
from reach.routing.strategies import Memory
from reach.service import Service
from reach.settings import Settings, otlp_wanted
from reach.tracing.hops import HopRecorder, TimeBase


class Work(NamedTuple):
    """What a worker does. `needed`: the services without whose progress it is not ready; `closers` are awaited at the end."""

    services: Sequence[Service]
    needed: frozenset[str]
    partitions: Sequence[int]
    hops: HopRecorder
    closers: Sequence[Callable[[], Awaitable[None]]]


def make_work(backend: Backend, settings: Settings, *, worker_id: str, environ: Mapping[str, str]) -> Work:
    """The services of the worker's roles, on an open backend.

    Raises:
        ConfigError: A partition to serve that there is not, or an extra that is missing.
    """
    partitions = _partitions(settings.serve_partitions, backend.partitions)
    hops = HopRecorder(backend.record, TimeBase(), node=settings.node_id, worker=worker_id, ask_ms=backend.now_ms)
    services, needed = router_services(
        backend,
        hops,
        partitions,
        worker_id,
        max_batch=settings.max_batch,
        max_envelope_bytes=settings.max_envelope_bytes,
    )
    closers: list[Callable[[], Awaitable[None]]] = []
    if otlp_wanted(environ):
        from reach.tracing.spans import SpanService, otlp_exporter

        spans = SpanService(backend, otlp_exporter(), partitions, worker_id)
        services.append(spans)
        closers.append(spans.close)
    return Work(services, needed, partitions, hops, closers)


def router_services(
    backend: Backend,
    hops: HopRecorder,
    partitions: Sequence[int],
    worker_id: str,
    *,
    max_batch: int,
    max_envelope_bytes: int,
) -> tuple[list[Service], frozenset[str]]:
    """What makes a router: the index and what feeds it, the router itself, its timers, the registry, the records."""
    rng = random.Random()  # noqa: S311 - chance for choosing, no secret
    index = CapabilityIndex()
    watcher = Watcher(backend, index)
    trail = Trail(hops)
    judge = Judge(
        Chooser(index=index, rng=rng, memory=Memory()),
        env=backend.env,
        partitions=backend.partitions,
        durability=backend.durability,
        rng=rng,
        max_envelope_bytes=max_envelope_bytes,
    )
    router = Router(
        backend,
        judge,
        trail,
        worker=worker_id,
        partitions=partitions,
        now_ms=hops.base.now_ms,
        ready=watcher.wait_loaded,
        max_batch=max_batch,
    )
    services: list[Service] = [
        hops,
        watcher,
        router,
        DueService(backend, trail, partitions),
        Registrar(backend, worker_id),
        Reaper(backend, worker_id),
    ]
    return services, frozenset({"router", "watcher", "due"})


def _partitions(wanted: Sequence[int] | None, there_are: int) -> Sequence[int]:
    if wanted is None:
        return range(there_are)
    beyond = [number for number in wanted if number >= there_are]
    if beyond:
        raise ConfigError(f"--serve-partitions: {', '.join(map(str, beyond))}, but there are {there_are}, from 0")
    return tuple(wanted)
