"""What makes a router: the same services in a worker, in embedded mode and in the test kit."""

import random
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from reach.backend.port import Backend
from reach.clock import Clock
from reach.delivery.demand import DemandCounter, DemandService
from reach.delivery.due import DueService
from reach.delivery.judge import Judge
from reach.delivery.rates import Rates
from reach.delivery.router import MAX_BATCH, Router
from reach.delivery.trail import Trail
from reach.envelope.codec import DEFAULT_MAX_BYTES
from reach.registry.admission import Admission
from reach.registry.circuits import CircuitTeller
from reach.registry.opener import Opener
from reach.registry.reaper import Reaper
from reach.registry.registrar import Registrar
from reach.registry.semantics import Semantics
from reach.registry.watcher import Complaints, Watcher
from reach.routing.decide import Chooser
from reach.routing.index import CapabilityIndex
from reach.routing.strategies import Memory
from reach.service import Service
from reach.tracing.contents import Contents, asked_meta
from reach.tracing.hops import HopRecorder

if TYPE_CHECKING:
    from reach.routing.meanings import Meanings

NEEDED = frozenset({"router", "watcher", "due"})
"""The services without whose progress a router is not ready."""


def router_services(
    backend: Backend,
    hops: HopRecorder,
    partitions: Sequence[int],
    worker_id: str,
    *,
    clock: Clock,
    rng: random.Random,
    max_batch: int = MAX_BATCH,
    max_envelope_bytes: int = DEFAULT_MAX_BYTES,
    token_keys: Sequence[str] = (),
    model: "Meanings | None" = None,
) -> list[Service]:
    """The index and what feeds it, the router itself, its timers, the registry, the records; on an open backend."""
    index = CapabilityIndex(Complaints().hear, model)
    semantics = Semantics(index, model)
    watcher = Watcher(backend, index, clock=clock)
    counter = DemandCounter(index)
    trail = Trail(hops, counter)
    hops.contents = _contents(backend, index, watcher)
    judge = Judge(
        Chooser(index=index, rng=rng, memory=Memory()),
        env=backend.env,
        partitions=backend.partitions,
        durability=backend.durability,
        rng=rng,
        max_envelope_bytes=max_envelope_bytes,
    )
    opener = Opener(backend, index, worker_id, watcher.now_ms)
    due = DueService(backend, trail, partitions, clock=clock)
    router = Router(
        backend,
        judge,
        trail,
        worker=worker_id,
        partitions=partitions,
        rates=Rates(backend, index, clock),
        now_ms=watcher.now_ms,
        ready=watcher.wait_loaded,
        before=semantics.ready,
        on_wait=due.nudge,
        reopen=opener.reopen,
        catch_up=watcher.catch_up,
        on_open=index.note_open,
        max_batch=max_batch,
        clock=clock,
    )

    async def demands_token() -> bool:
        await watcher.wait_loaded()
        return index.setting("require_token", 0) > 0

    async def networks() -> str | None:
        await watcher.wait_loaded()
        return index.meta.get("networks")

    admission = Admission(backend.env, token_keys, demands_token, networks)
    return [
        hops,
        watcher,
        semantics,
        router,
        due,
        Registrar(backend, worker_id, admission),
        Reaper(
            backend,
            worker_id,
            clock=clock,
            on_lost=lambda count: hops.tally.count("reach_recorders_lost_total", by=count),
        ),
        opener,
        CircuitTeller(backend, partitions),
        DemandService(backend, counter, index, hops, worker_id, now_ms=watcher.now_ms, clock=clock),
    ]


def _contents(backend: Backend, index: CapabilityIndex, watcher: Watcher) -> Contents:
    """A router is told at once what its records may keep."""

    async def meta() -> Mapping[str, str]:
        return index.meta if watcher.loaded else await asked_meta(backend)

    return Contents(backend.env, meta, every_ms=0)
