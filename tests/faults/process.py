"""A process that a test may kill at any step: its tasks end, its timers are forgotten, and its backend does nothing more for it.

Or freeze: its steps and its timers wait until it goes on. What the server does for it meanwhile (a read that waits) is done.
"""

import asyncio
import contextvars
import inspect
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, cast

from reach.backend.port import Backend
from reach.clock import Cancel, Clock
from reach.errors import BackendUnavailable

T = TypeVar("T")

How = Literal["before", "after", "lost", "frozen"]
#: the process dies before a step; after it; lives and does not hear that the step was done; stands still before it, and is replaced, and
#: goes on 20 s later as if nothing had been
HOWS: tuple[How, ...] = ("before", "after", "lost", "frozen")
FROZEN_MS = 20_000

#: so far is every process's wall clock ahead of the store's: it must decide nothing
WRONG_BY_MS = 3 * 3_600_000

_OWNER: contextvars.ContextVar["Process | None"] = contextvars.ContextVar("owner", default=None)


class Killed(BaseException):
    """The process of the caller is dead. No handler of errors catches it."""


@dataclass(frozen=True)
class Fault:
    """What happens to a process at its step number `index`, counted from 0 while it is armed."""

    index: int
    how: How


@dataclass(eq=False)
class Process:
    """One process: what runs in it, and what becomes of its steps.

    Attributes:
        armed: Steps are counted (and the fault is waited for) only while it is.
        steps: The names of the counted steps, each with the service that called it.
        met: The step at which the fault was met; "" if it was not.
    """

    name: str
    watch: Callable[["Process", str, tuple[Any, ...], Any], None]
    time: Clock
    fault: Fault | None = None
    armed: bool = False
    wrong_by_ms: int = WRONG_BY_MS  # its wall clock, against the store's
    dead: bool = False
    met: str = ""
    steps: list[str] = field(default_factory=list)
    tasks: set[asyncio.Task[Any]] = field(default_factory=set)
    frozen: bool = False
    froze: bool = False
    under_way: "dict[StepCall, None]" = field(default_factory=dict)
    planned: dict[str, How] = field(
        default_factory=dict
    )  # by name, for the next such step, counted or not: after | lost

    @property
    def clock(self) -> "ProcessClock":
        """Its clock."""
        return ProcessClock(self)

    def spawn(self, run: Coroutine[Any, Any, T], name: str = "main") -> "asyncio.Task[T]":
        """Run it as a part of this process."""
        context = contextvars.copy_context()
        context.run(_OWNER.set, self)
        return asyncio.get_running_loop().create_task(run, name=f"{name} of {self.name}", context=context)

    def die(self) -> None:
        """End every task of it; what it asks of the backend from now on raises."""
        self.dead = True
        for task in self.tasks:
            task.cancel()

    def freeze(self) -> None:
        """Stand still for 20 s."""
        self.frozen = self.froze = True
        self._thaw = asyncio.Event()
        self._late: list[Callable[[], None]] = []
        self.time.call_later(FROZEN_MS, self.thaw)

    def thaw(self) -> None:
        """Go on, as if nothing had been."""
        self.frozen = False
        self._thaw.set()
        for call in self._late:
            call()

    async def moving(self) -> None:
        """Wait until it moves."""
        while self.frozen:
            await self._thaw.wait()

    def at_its_time(self, call: Callable[[], None]) -> None:
        """A timer has come: call, or do it once it moves again."""
        if self.frozen:
            self._late.append(call)
        elif not self.dead:
            call()

    def check(self) -> None:
        """Raise where it is dead."""
        if self.dead:
            raise Killed(self.name)

    def arm(self) -> None:
        """Count from now on, beginning with the steps that are under way: reads that wait."""
        self.armed = True
        for call in tuple(self.under_way):
            self._count(call)
            self._strike(call)

    def begin(self, step: str) -> "StepCall":
        """A step begins: count it. Raises Killed where the process is dead, or dies before this step."""
        self.check()
        call = StepCall(step, _service())
        self.under_way[call] = None
        if self.armed:
            self._count(call)
        self._strike(call)
        self.check()
        return call

    def end(self, call: "StepCall") -> None:
        """A step was done. Raises what its caller gets instead of the reply."""
        self.check()
        hows = {call.fault.how if call.fault is not None else "", self.planned.pop(call.name, "")}
        if "after" in hows:
            self.die()
            self.check()
        if "lost" in hows:
            raise BackendUnavailable(f"the reply of {call.name} was lost")

    def _strike(self, call: "StepCall") -> None:
        """What happens before a step."""
        how = call.fault.how if call.fault is not None else ""
        if how == "before":
            self.die()
        elif how == "frozen":
            self.freeze()

    def _count(self, call: "StepCall") -> None:
        if call.is_telemetry:
            return
        index = len(self.steps)
        self.steps.append(f"{call.service}.{call.name}")
        if self.fault is not None and self.fault.index == index:
            call.fault, self.met = self.fault, self.steps[-1]


@dataclass(eq=False)
class StepCall:
    """A step that is under way."""

    name: str
    service: str
    fault: Fault | None = None

    @property
    def is_telemetry(self) -> bool:
        """Hop records are written by the real clock, so that they come at no step of their own; nothing depends on them.

        What they may keep is asked for only then (`read_meta`), and that they are written is said only then (`tell_recorder`).
        """
        return self.name in {"record", "read_meta", "tell_recorder"} or (
            self.name == "now_ms" and self.service not in {"registrar", "reaper"}
        )


class ProcessClock:
    """The clock of one process: set wrong by hours, and stopped with it."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.monotonic_ms = process.time.monotonic_ms

    async def sleep(self, ms: int) -> None:
        if ms <= 0:
            await asyncio.sleep(0)
            return
        over = asyncio.Event()
        take_back = self.call_later(ms, over.set)
        try:
            await over.wait()
        finally:
            take_back()

    def wall_ms(self) -> int:
        return self._process.time.wall_ms() + self._process.wrong_by_ms

    def call_later(self, ms: int, call: Callable[[], None]) -> Cancel:
        context = contextvars.copy_context()

        return self._process.time.call_later(ms, lambda: self._process.at_its_time(lambda: context.run(call)))


class Steps:
    """A process's view of a backend: counts its steps and meets its fault. Use it as the backend that it wraps (`.backend`)."""

    def __init__(self, inner: Backend, process: Process) -> None:
        self._inner = inner
        self._process = process

    @property
    def backend(self) -> Backend:
        """Itself, as what it stands for."""
        return cast("Backend", self)

    def __getattr__(self, name: str) -> Any:
        """The attribute of the backend; its steps with the fault around them."""
        found = getattr(self._inner, name)
        if not inspect.iscoroutinefunction(found) or name == "close":
            return found
        process = self._process

        async def step(*args: Any, **kwargs: Any) -> Any:
            call = process.begin(name)
            try:
                await process.moving()
                result = await found(*args, **kwargs)
            finally:
                process.under_way.pop(call, None)
            process.watch(process, name, args, result)
            await process.moving()
            process.end(call)
            return result

        return step


def own_tasks(loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> "asyncio.Task[Any]":
    """A task factory that tells every process which tasks are its own."""
    task: asyncio.Task[Any] = asyncio.Task(coro, loop=loop, **options)
    context = options.get("context")
    owner = context.get(_OWNER) if context is not None else _OWNER.get()
    if owner is not None:
        owner.tasks.add(task)
        task.add_done_callback(owner.tasks.discard)
        task.add_done_callback(_retrieve)
        if owner.dead:
            task.cancel()
    return task


def _retrieve(task: "asyncio.Task[Any]") -> None:
    """How a task of a process ended is no news: asyncio need not tell it."""
    if not task.cancelled():
        task.exception()


def _service() -> str:
    """Which part of its process the running task is: the name of its service, else its kind."""
    task = asyncio.current_task()
    words = task.get_name().split(" ") if task is not None else [""]
    return words[1] if words[0] == "service" else words[0]
