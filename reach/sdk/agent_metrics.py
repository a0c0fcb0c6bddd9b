"""/metrics of an agent's process: what it runs, how long that takes, and how the process is. Needs the extra `metrics`."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from reach.errors import ConfigError
from reach.log import event_log
from reach.sdk.runtime import AgentRun
from reach.service import Supervisor
from reach.tracing.exposition import MetricsPage
from reach.tracing.pages import PageServer
from reach.tracing.readings import Reading, Readings
from reach.tracing.vital_signs import LoopWatch, ServerWatch, build, of_recorder, of_services

log = event_log("reach.agent")


@asynccontextmanager
async def metrics_served(run: AgentRun, host: str, port: int | None) -> AsyncIterator[None]:
    """Inside, the page is there. None or 0: it is not, and nothing is measured.

    Raises:
        ConfigError: The port cannot be had.
    """
    if not port:
        yield
        return
    readings, clock = Readings(), run.place.clock
    watches = LoopWatch(clock), ServerWatch(run.backend.now_ms, clock)
    services = Supervisor(watches, clock=clock, rng=run.place.rng)

    def failures() -> Iterable[Reading]:
        """Asked each time: the pulse has its services only when Redis has answered it."""
        return of_services(run.vitals | services.vitals)()

    for source in (build, *watches, of_recorder(run.client.recorder), failures, lambda: _of(run)):
        readings.add(source)
    readings.count(run.client.recorder.tally)
    readings.plays("agent", "caller")
    server = PageServer({"/metrics": MetricsPage(readings)}, host, port)
    try:
        await server.start()
    except OSError as error:
        raise ConfigError(f"metrics_port {port}: {error.strerror or error}") from error
    log.info("listening", extra={"of": "metrics", "port": port, "agent": run.registration.agent_id})
    services.start()
    try:
        yield
    finally:
        await services.stop(drain_ms=0)
        await server.stop()


def _of(run: AgentRun) -> Iterable[Reading]:
    agent = (run.registration.agent_id,)
    yield Reading("reach_agent_running", len(run.runs), agent)
    yield Reading("reach_agent_slots", run.registration.concurrency, agent)
