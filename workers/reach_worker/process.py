"""One worker: waits for Redis, runs the services of its roles, and ends cleanly when it is told to."""

import asyncio
import os
import random
import signal
from collections.abc import Mapping

import uvloop

from reach import ids
from reach.backend import open_backend
from reach.backend.port import Backend
from reach.clock import Clock, SystemClock
from reach.errors import BackendError, ConfigError, ReachError
from reach.log import event_log
from reach.service import Supervisor, until_open
from reach.settings import Settings, safe_url
from reach.tracing.exposition import MetricsPage
from reach.tracing.pages import PageServer
from reach.tracing.readings import Readings
from reach.tracing.vital_signs import LoopWatch, build, of_services
from reach_worker.alert_bridge.bridge import ROLE, Bridge, open_bridge
from reach_worker.health import Health, HealthServer, Tick
from reach_worker.roles import Work, make_work

log = event_log("reach_worker")

DEFAULT_HEALTH_PORT = 8080
METRICS_PORT = 9464
LEAVE_S = 1.5


class Worker:
    """A worker process. `run` returns when `stop` was asked for and everything has ended."""

    def __init__(self, settings: Settings, environ: Mapping[str, str], clock: Clock | None = None) -> None:
        self.settings = settings
        self._environ = environ
        self._clock: Clock = clock or SystemClock()
        self.worker_id = settings.worker_id or ids.new_instance_id(settings.node_id, self._clock.wall_ms())
        self.health = Health(self._clock)
        self.readings = Readings()
        self._stop = asyncio.Event()
        self._rng = random.Random()  # noqa: S311 - jitter, no secret

    def stop(self) -> None:
        """Ask it to drain and end. Safe from a signal handler of the loop; twice is once."""
        self._stop.set()

    async def run(self) -> None:
        """Serve until `stop`, then drain: read nothing more, finish what is under way, write the last records.

        Raises:
            ConfigError: Nothing was started: an address or port that cannot be used, or an extra that is missing.
        """
        settings, metrics = self.settings, {"/metrics": MetricsPage(self.readings)}
        server = HealthServer(self.health, settings.health_host, settings.health_port, metrics)
        own = PageServer(metrics, settings.health_host, self._metrics_port)
        bridge = open_bridge(settings, clock=self._clock)
        if bridge is not None:
            self.readings.add(bridge.readings)
        backend = open_backend(self.settings.redis_url, env=self.settings.env)
        try:
            await self._listen(server, "health", settings.health_port, default=DEFAULT_HEALTH_PORT)
            taken = settings.metrics_port is None
            await self._listen(own, "metrics", self._metrics_port, default=METRICS_PORT if taken else 0)
            if bridge is not None and settings.roles == (ROLE,):
                await self._serve_bridge(bridge)
                return
            if bridge is not None:
                await bridge.start()
            # Also where the credentials are refused: whoever starts workers sees it in the log and in /readyz, and may put it right.
            if await until_open(
                backend.open,
                clock=self._clock,
                rng=self._rng,
                told=self._facts(),
                stop=self._stop,
                gives_up=False,
            ):
                await self._serve(backend)
        finally:
            if bridge is not None:
                await bridge.close()
            await server.stop()
            await own.stop()
            await backend.close()

    async def _serve_bridge(self, bridge: Bridge) -> None:
        loop_watch = LoopWatch(self._clock)
        supervisor = await bridge.start(Tick(), loop_watch)
        self.health.vitals, self.health.needed = supervisor.vitals, frozenset({Tick.name})
        for source in (build, loop_watch, of_services(supervisor.vitals)):
            self.readings.add(source)
        self.health.state = "running"
        await self._stop.wait()
        self.health.state = "draining"

    async def _serve(self, backend: Backend) -> None:
        work = make_work(
            backend, self.settings, worker_id=self.worker_id, environ=self._environ, readings=self.readings
        )
        supervisor = Supervisor((Tick(), *work.services), clock=self._clock)
        self.health.vitals = supervisor.vitals
        self.readings.add(of_services(supervisor.vitals))
        self.health.needed, self.health.observers = work.needed, work.observers
        supervisor.start()
        try:
            self.health.state = "running"
            log.info(
                "serving",
                extra={**self._facts(), "partitions": list(work.partitions), "durability": backend.durability},
            )
            await self._stop.wait()
            self.health.state = "draining"
            log.info("draining", extra={"worker": self.worker_id, "drain_ms": self.settings.drain_ms})
        finally:
            await supervisor.stop(self.settings.drain_ms)
            await self._finish(backend, work)

    async def _finish(self, backend: Backend, work: Work) -> None:
        lost = await work.hops.close()
        try:
            async with asyncio.timeout(LEAVE_S):
                await backend.drop_consumer(self.worker_id, work.partitions)
        except (TimeoutError, BackendError) as error:  # the reaper of another worker does it some time
            log.info("consumers left behind", extra={"worker": self.worker_id, "error": repr(error)})
        for close in work.closers:
            try:
                await close()
            except ReachError:  # the others have something to finish as well
                log.exception("not ended in order", extra={"worker": self.worker_id})
        log.info("stopped", extra={"worker": self.worker_id, "records_lost": lost})

    @property
    def _metrics_port(self) -> int:
        """A port of its own for /metrics. 0: beside the probes alone, or (without those, if nobody asked for one) nowhere."""
        if self.settings.metrics_port is not None:
            return self.settings.metrics_port
        return METRICS_PORT if self.settings.health_port else 0

    async def _listen(self, server: PageServer, what: str, port: int, *, default: int) -> None:
        if not port:
            return
        try:
            bound = await server.start()
        except OSError as error:
            # The default port on a machine with several workers: only the first can have it. One that was asked for must be had.
            if port != default:
                raise ConfigError(f"--{what}-port {port}: {error.strerror or error}") from error
            log.warning("the default port is taken, so nothing listens there", extra={"of": what, "port": port})
        else:
            log.info("listening", extra={"of": what, "port": bound})

    def _facts(self) -> dict[str, object]:
        settings = self.settings
        return {
            "worker": self.worker_id,
            "env": settings.env,
            "roles": list(settings.roles),
            "redis_url": safe_url(settings.redis_url),
            "pid": os.getpid(),
        }


def run(settings: Settings, environ: Mapping[str, str], *, exit_with_stdin: bool = False) -> int:
    """Run a worker in this process on uvloop until SIGTERM or SIGINT; a second signal ends it at once. The exit status.

    `exit_with_stdin`: also until stdin ends, which is how a worker learns that whoever started it was killed.

    Raises:
        ConfigError: As `Worker.run`.
    """
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_main(settings, environ, exit_with_stdin=exit_with_stdin))


async def _main(settings: Settings, environ: Mapping[str, str], *, exit_with_stdin: bool) -> int:
    worker = Worker(settings, environ)
    asked = 0

    def on_signal() -> None:
        nonlocal asked
        asked += 1
        if asked > 1:
            os._exit(1)  # at once: what is pending is claimed by another worker
        worker.stop()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    if exit_with_stdin:
        loop.add_reader(0, _on_stdin, loop, worker)
    await worker.run()
    return 0


def _on_stdin(loop: asyncio.AbstractEventLoop, worker: Worker) -> None:
    if not os.read(0, 4096):
        loop.remove_reader(0)
        worker.stop()
