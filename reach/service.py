"""A service: something that is run again and again, and may run twice at once without harm. And the one place that owns tasks."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar, cast, runtime_checkable

from reach.clock import Clock, SystemClock
from reach.errors import BackendError, ReachError, ScriptFailed
from reach.log import PacedLog, event_log

Report = Mapping[str, int]
"""What one run did, as counts: `{"reclaimed": 3}`. Empty: nothing was to do."""

T = TypeVar("T")

log = event_log("reach.service")

FIRST_PAUSE_MS = 100
MAX_PAUSE_MS = 1_000


class Service(Protocol):
    """One task with one owner: a name, a pace, and a run that ends by itself."""

    @property
    def name(self) -> str:
        """The name in logs and metrics."""
        ...

    @property
    def interval_ms(self) -> int:
        """The wait between the end of a run and the start of the next; 0 for one that blocks in its run. Asked after every run."""
        ...

    async def run_once(self) -> Report:
        """Do what is due now and say what was done. Cancelling is safe: every step of it is atomic."""
        ...


@runtime_checkable
class Interruptible(Protocol):
    """A service whose run may be long because it waits."""

    def interrupt(self) -> None:
        """End the wait, now and whenever one begins after this: the service is to stop."""
        ...


def cut(scope: asyncio.Timeout) -> None:
    """Let it run out now. Twice is once, also while it is running out: asyncio itself raises then."""
    if not scope.expired():
        scope.reschedule(asyncio.get_running_loop().time())


class Wait:
    """The wait in which a service blocks, and which `end` cuts short. For one event loop."""

    def __init__(self) -> None:
        self._over = False
        self._scope: asyncio.Timeout | None = None

    def end(self) -> None:
        """No wait any more: not this one, and none that begins later. Twice is once."""
        self._over = True
        self.cut()

    def cut(self) -> None:
        """End the wait that runs now, if there is one."""
        if self._scope is not None:
            cut(self._scope)

    async def on(self, run: Coroutine[Any, Any, T]) -> T | None:
        """What it brings; None: it was cut short, as by a cancellation, and what it was about to bring may be lost on the way."""
        if self._over:
            run.close()
            return None
        scope = self._scope = asyncio.timeout(None)
        try:
            async with scope:
                return await run
        except TimeoutError:
            if scope.expired():
                return None
            raise
        finally:
            self._scope = None


@dataclass
class Vitals:
    """How a service is doing; moments by the monotonic clock of the process."""

    started_at_ms: int
    last_ok_at_ms: int = 0
    runs: int = 0
    failures: int = 0  # in a row
    last_error: str = ""


def pause_ms(failures: int, rng: random.Random) -> int:
    """The wait after so many failures in a row: doubles from 100 ms to 1 s, with jitter so that a fleet does not move in step."""
    most = min(MAX_PAUSE_MS, FIRST_PAUSE_MS << min(max(failures - 1, 0), 10))
    return round(most * rng.uniform(0.5, 1.0))


async def until_open(
    open_it: Callable[[], Awaitable[None]],
    *,
    clock: Clock,
    rng: random.Random,
    told: Mapping[str, object],
    stop: asyncio.Event | None = None,
    gives_up: bool = True,
) -> bool:
    """Wait for a server, however long: it may come later than we do. False: `stop` came first, also in the middle of an attempt.

    Args:
        open_it: One attempt.
        clock: For the waits between attempts.
        rng: For their jitter.
        told: Goes into the log with each line; there is one in 10 s.
        stop: Who waits is told to end.
        gives_up: What the server refuses for good (credentials) is raised; else that is waited for as well.

    Raises:
        BackendError: It refuses.
    """
    failures, paced = 0, PacedLog(log, clock)
    while stop is None or not stop.is_set():
        try:
            return await _unless(stop, open_it())
        except BackendError as error:
            if gives_up and not error.retryable:
                raise
            failures += 1
            paced.warning("waiting for redis", **told, error=str(error), failures=failures)
        await _unless(stop, clock.sleep(pause_ms(failures, rng)))
    return False


async def _unless(stop: asyncio.Event | None, run: Awaitable[None]) -> bool:
    """Await it. False: `stop` came first, and it was cancelled."""
    if stop is None:
        await run
        return True
    running, stopping = asyncio.ensure_future(run), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((running, stopping), return_when=asyncio.FIRST_COMPLETED)
        ended = running.done()
    finally:
        left = [task for task in (running, stopping) if not task.done()]
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left)
    if ended:
        await running
    return ended


class Supervisor:
    """Runs services side by side, each in a task of its own, until `stop`. A service that raises is logged and run again, paced.

    `async with Supervisor(services): ...` starts and stops them. One line of log per service in 10 s, however often it fails.
    """

    def __init__(
        self, services: Iterable[Service], *, clock: Clock | None = None, rng: random.Random | None = None
    ) -> None:
        self._services = tuple(services)
        self._clock: Clock = clock or SystemClock()
        self._rng = rng or random.Random()  # noqa: S311 - jitter, no secret
        self._tasks: dict[asyncio.Task[None], str] = {}
        self._sleeping: set[asyncio.Task[None]] = set()
        self._stopping = False
        self._log = PacedLog(log, self._clock)
        self.vitals: dict[str, Vitals] = {}

    def start(self) -> None:
        """Start every service. Needs a running loop; once."""
        now = self._clock.monotonic_ms()
        for service in self._services:
            self.vitals[service.name] = Vitals(started_at_ms=now)
            self._tasks[asyncio.create_task(self._loop(service), name=f"service {service.name}")] = service.name

    async def stop(self, drain_ms: int = 10_000) -> bool:
        """Let the runs that are under way end, start none, and cancel what is left after `drain_ms`. True: nothing was cut off.

        Whoever only waits is interrupted.

        Cancelling is safe: what is left is cancelled at once.
        """
        self._stopping = True
        for service in self._services:
            if isinstance(service, Interruptible):
                service.interrupt()
        for task in tuple(self._sleeping):
            task.cancel()
        left: set[asyncio.Task[None]] = set(self._tasks)
        try:
            if left:
                _, left = await asyncio.wait(left, timeout=max(drain_ms, 0) / 1000)
        finally:
            for task in left:
                task.cancel()
        if left:
            await asyncio.wait(left)
        if left and drain_ms > 0:  # with no time to drain, cutting off is what was asked for
            log.warning("cut off", extra={"services": sorted(self._tasks[task] for task in left), "drain_ms": drain_ms})
        self._tasks.clear()
        return not left

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.stop()

    async def _loop(self, service: Service) -> None:
        vitals = self.vitals[service.name]
        told = False
        while not self._stopping:
            vitals.runs += 1
            try:
                await service.run_once()
            except Exception as error:  # noqa: BLE001 - the one place: it must survive whatever a run meets
                vitals.failures += 1
                vitals.last_error = error.code if isinstance(error, ReachError) else type(error).__name__
                told |= self._log.warning(
                    "service failed",
                    of=service.name,
                    service=service.name,
                    error=str(error),
                    failures=vitals.failures,
                    exc_info=None if _is_known(error) else error,
                )
                wait_ms = pause_ms(vitals.failures, self._rng)
            else:
                if vitals.failures:
                    if told:  # who flaps is not told of for each time
                        log.info("service recovered", extra={"service": service.name, "failures": vitals.failures})
                    vitals.failures, vitals.last_error, told = 0, "", False
                vitals.last_ok_at_ms = self._clock.monotonic_ms()
                wait_ms = service.interval_ms
            await self._rest(wait_ms)

    async def _rest(self, wait_ms: int) -> None:
        if self._stopping:
            return
        task = cast("asyncio.Task[None]", asyncio.current_task())
        self._sleeping.add(task)
        try:
            await self._clock.sleep(
                wait_ms
            )  # zero gives way once: a service that never blocks must not starve the others
        finally:
            self._sleeping.discard(task)


def _is_known(error: Exception) -> bool:
    """What Redis says when it is away, or when somebody has spoilt a key, needs no traceback; anything else is a bug and does."""
    if not isinstance(error, ReachError):
        return False
    return error.retryable or (bool(error.details.get("reply_code")) and not isinstance(error, ScriptFailed))


class Tasks:
    """Owns tasks that end by themselves, one per message or question: none is lost to the collector, none outlives its owner."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = False
        self._log = PacedLog(log)

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, run: Coroutine[Any, Any, T], name: str) -> "asyncio.Task[T] | None":
        """Run it until it ends or `close`; what it raises is logged. None: already closed, nothing was started."""
        if self._closed:
            run.close()
            return None
        task = asyncio.create_task(run, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            name = task.get_name()  # a kind of task, and of which message
            self._log.error("task failed", of=(name.partition(" ")[0], repr(error)), task=name, exc_info=error)

    async def ended(self) -> None:
        """Wait until all have ended that run now. Cancelling ends the wait alone."""
        if self._tasks:
            await asyncio.wait(tuple(self._tasks))

    async def close(self) -> None:
        """Cancel what still runs and wait until it has ended. Twice is once; nothing can be started any more."""
        self._closed = True
        own = asyncio.current_task()
        while tasks := [task for task in self._tasks if task is not own]:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
