"""A bus for the tests of those who build on reach: real router, real ledger, memory, and a clock that the test moves.

async with TestReach(agent) as bus:
    handle = await bus.send("capability:refund", {"order_id": "ORD-1"})
    await bus.kill(agent)
    await bus.advance(20)                     # seconds that pass at once
    receipt = await handle.receipt()
"""

import asyncio
import contextlib
import inspect
import itertools
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from types import TracebackType
from typing import Any, Self, cast

from reach import ids
from reach.backend.memory_backend import MemoryBackend, Store
from reach.backend.port import Backend
from reach.clock import Cancel
from reach.envelope.codec import decode
from reach.envelope.message import Envelope
from reach.envelope.records import decode_receipt
from reach.errors import BackendUnavailable, EnvelopeError, RecordError
from reach.sdk.agent import Agent
from reach.sdk.client import Reach, sender_ids
from reach.sdk.durations import Duration, to_ms
from reach.sdk.embedded import MemoryPlace
from reach.sdk.receipts import Receipt, receipt_of
from reach.sdk.runtime import AgentRun
from reach.sdk.sending import Sending

__all__ = ["Crash", "FaultyBackend", "ManualClock", "TestReach", "wait_until"]

START_MS = 1_700_000_000_000
#: so many turns of the loop in which nobody calls the backend mean that nothing goes on any more
QUIET_TURNS = 30
#: a router that has just started takes nothing from anybody for 15 s: that is over when a test begins
GRACE_S = 16
THREAD_WAIT_S = 5.0
#: so far is the wall clock of every process of the bus ahead of the store's
WRONG_BY_MS = 3 * 3_600_000


async def wait_until(condition: Callable[[], object], timeout: float = 5.0, what: str = "") -> None:
    """Wait in real time until `condition` is true; it may be async.

    Raises:
        AssertionError: It has not become true within `timeout` seconds; `what` says what was waited for.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + timeout
    while True:
        value = condition()
        if inspect.isawaitable(value):
            value = await value
        if value:
            return
        if loop.time() >= end:
            raise AssertionError(f"not within {timeout} s: {what or inspect.getsource(condition).strip()}")
        await asyncio.sleep(0.005)


class ManualClock:
    """A clock that stands still until `advance` moves it."""

    def __init__(self, wall_ms: int = START_MS) -> None:
        self._wall_ms = wall_ms
        self._monotonic_ms = 0
        self._numbers = itertools.count()
        self._calls: dict[int, tuple[int, Callable[[], None]]] = {}

    def monotonic_ms(self) -> int:
        """Milliseconds since it was made."""
        return self._monotonic_ms

    def wall_ms(self) -> int:
        """Unix milliseconds."""
        return self._wall_ms

    def advance(self, ms: int) -> None:
        """Move on by so many ms and run what has become due; a negative number is a step back of the wall clock alone."""
        self._wall_ms += ms
        self._monotonic_ms += max(ms, 0)
        ripe = sorted((at_ms, number) for number, (at_ms, _) in self._calls.items() if at_ms <= self._monotonic_ms)
        for _, number in ripe:
            _, call = self._calls.pop(number, (0, _nothing))
            call()

    @property
    def next_at_ms(self) -> int | None:
        """When the next planned call is due, by the monotonic clock; None: nothing is planned."""
        return min((at_ms for at_ms, _ in self._calls.values()), default=None)

    async def sleep(self, ms: int) -> None:
        """Wait until it has been moved so far; zero or less gives way once."""
        if ms <= 0:
            await asyncio.sleep(0)
            return
        over = asyncio.Event()
        take_back = self.call_later(ms, over.set)
        try:
            await over.wait()
        finally:
            take_back()

    def call_later(self, ms: int, call: Callable[[], None]) -> Cancel:
        """Plan a call; returns what takes it back."""
        number = next(self._numbers)
        self._calls[number] = (self._monotonic_ms + max(ms, 0), call)
        return lambda: _forget(self._calls, number)


class _WrongWall:
    """The clock of a machine that is set wrong: it measures as the bus's does, and says another time of day.

    The bus gives it to router, agents and clients: only the clock of the store may decide anything.
    """

    def __init__(self, right: ManualClock, ahead_ms: int) -> None:
        self._right = right
        self._ahead_ms = ahead_ms
        self.monotonic_ms = right.monotonic_ms
        self.sleep = right.sleep
        self.call_later = right.call_later

    def wall_ms(self) -> int:
        return self._right.wall_ms() + self._ahead_ms


def _nothing() -> None:
    """A call that was taken back by another one of the same moment."""


def _forget(calls: dict[int, tuple[int, Callable[[], None]]], number: int) -> None:
    calls.pop(number, None)


class Crash(BaseException):
    """The process of the caller ended here. No handler of errors catches it."""


class FaultyBackend:
    """Any backend, with faults around its steps and a look at what was called. Use it as the backend that it wraps (`.backend`).

    `before=True`: the step was not done; else it was, and its reply is lost.
    """

    def __init__(self, inner: Backend, watch: Callable[[str, tuple[Any, ...], Any], None] | None = None) -> None:
        """`watch` hears every step that was done: name, arguments, result."""
        self._inner = inner
        self._watch = watch
        self._faults: list[tuple[str, bool, BaseException]] = []
        self._open = asyncio.Event()
        self._open.set()
        self.calls: list[str] = []

    @property
    def backend(self) -> Backend:
        """Itself, as what it stands for."""
        return cast("Backend", self)

    def fail(self, step: str, *, before: bool = True, error: BaseException | None = None, times: int = 1) -> None:
        """The next `times` calls of `step` raise `error` (BackendUnavailable where none is given)."""
        fault = error if error is not None else BackendUnavailable(f"{step}: made to fail")
        self._faults += [(step, before, fault)] * times

    def lose_reply(self, step: str, times: int = 1) -> None:
        """The next calls of `step` are done, and the caller cannot know it."""
        self.fail(step, before=False, times=times)

    def heal(self) -> None:
        """No fault any more, of those that have not been met."""
        self._faults.clear()

    def crash(self, step: str, *, before: bool) -> None:
        """The caller ends at its next call of `step`."""
        self.fail(step, before=before, error=Crash(step))

    def pause(self) -> None:
        """Every call waits from now on, as if the caller's process were stopped."""
        self._open.clear()

    def resume(self) -> None:
        """Go on."""
        self._open.set()

    def __getattr__(self, name: str) -> Any:
        """The attribute of the backend; its steps with faults around them."""
        found = getattr(self._inner, name)
        if not inspect.iscoroutinefunction(found):
            return found

        async def step(*args: Any, **kwargs: Any) -> Any:
            await self._open.wait()
            self.calls.append(name)
            self._meet(name, before=True)
            result = await found(*args, **kwargs)
            if self._watch is not None:
                self._watch(name, args, result)
            self._meet(name, before=False)
            await self._open.wait()
            return result

        return step

    def _meet(self, name: str, *, before: bool) -> None:
        for fault in self._faults:
            if fault[:2] == (name, before):
                self._faults.remove(fault)
                raise fault[2]


class TestReach(Sending):
    """A router, these agents and a client on one memory, with a clock of their own. An async context manager.

    Attributes:
        clock: The one clock of all: `advance` moves it.
        sent: Every envelope that was put into an ingress, by whomever.
        receipts: Every receipt that has arrived in a mailbox.
        reach: The client that `request`, `ask` and `send` go through; `client_backend` is its backend, for faults.
        newest: The backend that was made last.
        store: The memory: its keys, as a server would have them.
    """

    __test__ = False  # pytest: no test class

    def __init__(self, *agents: Agent, env: str = ids.DEFAULT_ENV, agent_id: str = "test", seed: int = 0) -> None:
        self.clock = ManualClock()
        self.store = Store(self.clock)
        self.sent: list[Envelope] = []
        self.receipts: list[Receipt[Any]] = []
        self._agents = agents
        self._calls = 0
        wrong = _WrongWall(self.clock, WRONG_BY_MS)
        self.place = MemoryPlace(env, clock=wrong, rng=random.Random(seed), make=self._make, warns=False)  # noqa: S311 - chance for tests
        self._client_id = agent_id
        self._runs: dict[AgentRun, tuple[Agent, FaultyBackend]] = {}
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await self.place.enter()
            stack.push_async_callback(self.place.leave)
            await self.advance(GRACE_S)
            for agent in self._agents:
                await stack.enter_async_context(self._running(agent))
            agent_id, name = sender_ids(self._client_id)
            self.reach = Reach(self.place, agent_id=agent_id, name=name)
            self.client_backend = self.newest
            await self.reach.start()
            stack.push_async_callback(self.reach.close)
            self._origin = self.reach.origin
            await self.settle()
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    # ------------------------------------------------------------ time

    async def advance(self, seconds: Duration) -> None:
        """Let so much time pass: every timer on the way runs at its moment, and all that follows from it is done before the next."""
        end_ms = self.clock.monotonic_ms() + to_ms(seconds, "seconds", least=0)
        await self.settle()
        while (at_ms := self.clock.next_at_ms) is not None and at_ms <= end_ms:
            self.clock.advance(max(at_ms - self.clock.monotonic_ms(), 0))
            await self.settle()
        self.clock.advance(end_ms - self.clock.monotonic_ms())
        await self.settle()

    async def settle(self) -> None:
        """Let everything happen that needs no time to pass."""
        quiet = 0
        while quiet < QUIET_TURNS:
            calls = self._calls
            await asyncio.sleep(0)
            quiet = quiet + 1 if self._calls == calls else 0
            if quiet == QUIET_TURNS and any(run.threads for run in self._runs):
                await self._threads_ended()
                quiet = 0

    async def _threads_ended(self) -> None:
        await wait_until(
            lambda: not any(run.threads for run in self._runs), THREAD_WAIT_S, "the end of handlers in threads"
        )

    # ------------------------------------------------------------ agents and router

    async def stop_router(self) -> None:
        """From now on there is no router: what is in flight must end without one."""
        await self.place.stop()

    async def start(self, agent: Agent) -> None:
        """Start an agent, or one more instance of it."""
        await self._stack.enter_async_context(self._running(agent))

    async def kill(self, agent: Agent) -> None:
        """End every instance of it, telling nobody."""
        for run in self._of(agent):
            self._runs.pop(run)
            await run.kill()

    async def pause(self, agent: Agent) -> None:
        """Stop every instance of it where it is: no call of it reaches anybody until `resume`. Its handlers go on."""
        for run in self._of(agent):
            self._runs[run][1].pause()

    async def resume(self, agent: Agent) -> None:
        """Let it go on."""
        for run in self._of(agent):
            self._runs[run][1].resume()

    def backend_of(self, agent: Agent) -> FaultyBackend:
        """The backend of its newest instance, for faults around its steps."""
        return self._runs[self._of(agent)[-1]][1]

    def _of(self, agent: Agent) -> list[AgentRun]:
        return [run for run, (owner, _) in self._runs.items() if owner is agent]

    @asynccontextmanager
    async def _running(self, agent: Agent) -> AsyncIterator[None]:
        run = agent.new_run(self.place)
        backend = self.newest
        await run.start()
        self._runs[run] = (agent, backend)
        try:
            yield
        finally:
            if self._runs.pop(run, None) is not None:
                backend.resume()
                await run.kill()

    # ------------------------------------------------------------ the memory

    def _make(self) -> Backend:
        self.newest = FaultyBackend(MemoryBackend(env=self.place.env, store=self.store), self._watch)
        return self.newest.backend

    def _watch(self, step: str, args: tuple[Any, ...], result: Any) -> None:
        self._calls += 1
        with contextlib.suppress(EnvelopeError, RecordError):  # what cannot be read is no envelope and no receipt
            if step == "submit" or (step == "requeue" and result):
                self.sent.append(decode(args[2]))
            elif step == "read_mail":
                for mail in result:
                    if mail.kind == "receipt":
                        self.receipts.append(receipt_of(decode_receipt(mail.data)))
