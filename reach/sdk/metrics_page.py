"""/metrics of a process of the SDK: what its part counts, and how the process is. Needs the extra `metrics`."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from reach.backend.port import Backend
from reach.errors import ConfigError
from reach.log import event_log
from reach.sdk.places import Place
from reach.service import Supervisor, Vitals
from reach.settings import of_this_process
from reach.tracing.exposition import MetricsPage
from reach.tracing.hops import HopRecorder
from reach.tracing.metrics import Who
from reach.tracing.pages import PageServer
from reach.tracing.readings import Reading, Readings
from reach.tracing.vital_signs import LoopWatch, ServerWatch, build, of_recorder, of_services

log = event_log("reach.metrics")


@asynccontextmanager
async def metrics_page(
    host: str,
    port: int | None,
    *,
    of: str,
    plays: tuple[Who, ...],
    place: Place,
    backend: Backend,
    recorder: HopRecorder,
    vitals: Callable[[], Mapping[str, Vitals]],
    own: Callable[[], Iterable[Reading]] = tuple,
) -> AsyncIterator[None]:
    """Inside, the page is there. None or 0: it is not, and nothing is measured. `of`: the agent_id; `own`: what it tells beside the others.

    Raises:
        ConfigError: The port cannot be had.
    """
    if not port:
        yield
        return
    readings, clock = Readings(), place.clock
    watches = LoopWatch(clock), ServerWatch(backend.now_ms, clock)
    services = Supervisor(watches, clock=clock, rng=place.rng)

    def failures() -> Iterable[Reading]:
        """Asked each time: the pulse has its services only when Redis has answered it."""
        return of_services({**vitals(), **services.vitals})()

    for source in (build, *watches, of_recorder(recorder), failures, own):
        readings.add(source)
    readings.count(recorder.tally)
    readings.plays(*plays)
    server = PageServer({"/metrics": MetricsPage(readings)}, host, port)
    try:
        await server.start()
    except OSError as error:
        raise ConfigError(f"metrics_port {port}: {error.strerror or error}") from error
    log.info("listening", extra={"of": "metrics", "port": port, "agent": of})
    services.start()
    try:
        yield
    finally:
        await services.stop(drain_ms=0)
        await server.stop()


class Caller(Protocol):
    """A client, as far as its page must know it."""

    agent_id: str
    backend: Backend

    @property
    def recorder(self) -> HopRecorder: ...

    @property
    def vitals(self) -> dict[str, Vitals]: ...


def caller_page(client: Caller, place: Place, port: int | None) -> AbstractAsyncContextManager[None]:
    """The page of a program that only sends. REACH_HEALTH_HOST says at which address. Errors as `metrics_page`."""
    return metrics_page(
        of_this_process().health_host if port else "",
        port,
        of=client.agent_id,
        plays=("caller",),
        place=place,
        backend=client.backend,
        recorder=client.recorder,
        vitals=lambda: client.vitals,
    )
