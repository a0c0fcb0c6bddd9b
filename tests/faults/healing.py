"""A small env in the test's own loop, under light load, in which a test breaks things by hand: two routers, an agent, a client.

Every part is a process of its own as far as the log is concerned: what it says is counted by who said it.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import pytest
import redis.asyncio

from reach import Agent, Context, Handle, Reach, Retry
from reach.backend.keys import KeySpace
from reach.log import Event
from reach.testing import wait_until
from tests.integration.sdk.world import router
from tests.lag import Lag

T = TypeVar("T")

KEYS = KeySpace("dev")
AGENT = "helper-1"
BACK_S = 2.0  # how long after its cause a fault may be felt
ANSWER_S = 0.25  # a caller hears so long after its total at the latest
TOTAL_S = 3.0
HANGS_S = 10.0  # a caller who is not told so long after his total hangs
SAME_LINE_S = 10.0  # one process says the same of the same thing once in so long
#: lane -> a priority that leads there
PRIORITIES = {"high": 9, "normal": 5, "low": 1}

IDLE_OR_LOADED = pytest.mark.parametrize("loaded", [False, True], ids=["idle", "loaded"])
LOADED = pytest.mark.parametrize(
    "loaded", [pytest.param(False, marks=pytest.mark.long, id="idle"), pytest.param(True, id="loaded")]
)

#: which of the "processes" is running
_PROCESS: ContextVar[str] = ContextVar("process", default="test")


class Line(NamedTuple):
    """What was said in the log: when, by whom, what, of what."""

    at_s: float
    process: str
    event: str
    of: tuple[tuple[str, str], ...]
    traceback: bool


#: the facts of a line that say of what it is; the others differ from line to line
_SUBJECTS = ("service", "stream", "group", "agent", "partition", "instance", "of", "task")


class Lines(logging.Handler):
    """Everything from INFO on that anybody says."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.said: list[Line] = []

    def emit(self, record: logging.LogRecord) -> None:
        facts = record.msg.facts if isinstance(record.msg, Event) else {}
        of = tuple((name, str(facts[name])) for name in _SUBJECTS if name in facts)
        event = record.msg.event if isinstance(record.msg, Event) else record.getMessage()
        process = f"{_PROCESS.get()}/{record.threadName}"
        self.said.append(Line(time.monotonic(), process, event, of, record.exc_info is not None))

    def floods(self) -> list[str]:
        """What one process has said of one thing a second time within 10 s, and every traceback."""
        found = [f"a traceback: {line}" for line in self.said if line.traceback]
        last: dict[tuple[object, ...], float] = {}
        for line in self.said:
            same = (line.process, line.event, line.of)
            if line.at_s - last.get(same, -SAME_LINE_S) < SAME_LINE_S:
                found.append(f"again: {line}")
            else:
                last[same] = line.at_s
        return found


@contextmanager
def listening() -> Iterator[Lines]:
    lines = Lines()
    logger = logging.getLogger("reach")
    logger.addHandler(lines)
    try:
        yield lines
    finally:
        logger.removeHandler(lines)


@asynccontextmanager
async def process(name: str, make: Callable[[], AbstractAsyncContextManager[T]]) -> AsyncIterator[T]:
    """Something that runs in a task of its own, whose log lines bear this name."""
    made: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    stop = asyncio.Event()

    async def run() -> None:
        _PROCESS.set(name)
        try:
            async with make() as it:
                made.set_result(it)
                await stop.wait()
        except BaseException as error:
            if not made.done():
                made.set_exception(error)
                return
            raise

    task = asyncio.create_task(run())
    try:
        yield await made
    finally:
        stop.set()
        await task


@dataclass
class Call:
    """A request: when it was made, how long it took, and what came."""

    at_s: float
    total_s: float
    took_s: float = -1.0
    code: str = ""


class Town:
    """What a test sees. `calls` has every request that was made by it."""

    def __init__(self, url: str, raw: Any, lines: Lines) -> None:
        self.url = url
        self.raw = raw  # a plain redis.asyncio.Redis, whose types say that every reply is anything at all
        self.lines = lines
        self.lag = Lag()
        self.calls: list[Call] = []
        self.starts: Counter[str] = Counter()
        self.cancelled: list[str] = []
        self.let_go = asyncio.Event()
        self.reach: Reach
        self.agent = self._agent()
        self._tasks: set[asyncio.Task[Call]] = set()
        self._loading: asyncio.Task[None] | None = None

    def _agent(self) -> Agent:
        agent = Agent(AGENT, concurrency=64)

        @agent.capability("work")
        async def work(body: Any, ctx: Context) -> Any:
            self.starts[ctx.msg_id] += 1
            return body

        @agent.capability("hold")
        async def hold(ctx: Context) -> str:
            self.starts[ctx.msg_id] += 1
            try:
                await self.let_go.wait()
            except asyncio.CancelledError:
                self.cancelled.append(ctx.msg_id)
                raise
            return "held"

        @agent.capability("later")
        async def later() -> None:
            raise Retry(after=600)

        @agent.capability("fail")
        async def fail() -> None:
            raise Retry

        return agent

    # ---------------------------------------------------------------- what runs

    async def call(self, capability: str = "work", total_s: float = TOTAL_S, **options: Any) -> Call:
        """One request, kept in `calls`."""
        call = Call(time.monotonic(), total_s)
        self.calls.append(call)
        receipt = await self.reach.request(f"capability:{capability}", 1, timeout=total_s, **options)
        call.took_s, call.code = time.monotonic() - call.at_s, receipt.code
        return call

    def begin(self, **options: Any) -> asyncio.Task[Call]:
        """A request that nobody waits for; `end` does."""
        task = asyncio.create_task(self.call(**options))
        self._tasks.add(task)
        return task

    async def hold(self, priority: int = 5) -> Handle:
        """A message that the agent runs until `let_go`."""
        handle = await self.reach.send("capability:hold", timeout=60, priority=priority)
        await wait_until(lambda: self.starts[handle.msg_id] == 1)
        return handle

    async def waiting(self) -> Handle:
        """A message that waits for a retry: its bytes lie in `env`."""
        handle = await self.reach.send("capability:later", timeout=1_200)
        await wait_until(lambda: self.raw.exists(KEYS.envelope(0, handle.msg_id)))
        return handle

    def start_load(self, every_s: float = 0.02) -> None:
        """Requests of every lane from now on."""

        async def load() -> None:
            number = 0
            while True:
                number += 1
                self.begin(priority=(9, 5, 1)[number % 3])
                await asyncio.sleep(every_s)

        self._loading = asyncio.create_task(load())

    async def traffic(self) -> None:
        """Wait until the load flows."""
        before = len(self.calls)
        await wait_until(lambda: len(self.calls) > before + 10)

    async def stop_load(self) -> None:
        if self._loading is not None:
            self._loading.cancel()
            await asyncio.wait([self._loading])
            self._loading = None

    # ---------------------------------------------------------------- what is asked

    async def back(self, since_s: float, *more: Callable[[], Awaitable[object]]) -> float:
        """Wait until requests of every lane are served again, and whatever `more` asks is true. How long after `since_s`.

        Fails when that is not so within `BACK_S`.
        """
        while True:
            probes = [self.begin(priority=priority) for priority in PRIORITIES.values()]
            done, _ = await asyncio.wait(probes, timeout=0.25)
            took_s = time.monotonic() - since_s
            served = len(done) == len(probes) and all(probe.result().code == "ok" for probe in done)
            if served and all([await ask() for ask in more]):
                return took_s
            assert took_s < BACK_S + self.lag.allowed_s, (
                f"not back within {BACK_S} s: {[probe.result().code for probe in done]}"
            )
            if served:
                await asyncio.sleep(0.02)

    async def end(self) -> None:
        """Stop the load and wait for every caller; none may have hung, none may have been told late."""
        await self.stop_load()
        if self._tasks:
            _, hanging = await asyncio.wait(self._tasks, timeout=TOTAL_S + HANGS_S)
            assert not hanging, f"{len(hanging)} callers hang"
        late = [call for call in self.calls if call.took_s > call.total_s + ANSWER_S + self.lag.allowed_s]
        assert not late, late
        for task in self._tasks:
            task.result()
        self._tasks.clear()

    async def abandon(self) -> None:
        """Wait for nobody any more: a test has failed, or has waited itself."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def calm(self) -> None:
        """No flood in the log, nothing ran twice, nothing was taken from an agent that lives."""
        assert not self.lines.floods(), "\n".join(self.lines.floods())
        assert not self.cancelled, f"taken from a live agent: {self.cancelled}"
        twice = {msg_id: count for msg_id, count in self.starts.items() if count > 1}
        assert not twice, f"ran twice: {twice}"

    def codes(self) -> Counter[str]:
        """How the calls have ended."""
        return Counter(call.code for call in self.calls)


@asynccontextmanager
async def town(url: str) -> AsyncIterator[Town]:
    """Everything runs and has served a message."""
    async with AsyncExitStack() as stack:
        lines = stack.enter_context(listening())
        raw = await stack.enter_async_context(redis.asyncio.Redis.from_url(url, decode_responses=False))
        made = Town(url, raw, lines)
        for worker in ("router-1", "router-2"):
            await stack.enter_async_context(process(worker, lambda worker=worker: router(url, worker)))  # type: ignore[misc]
        await stack.enter_async_context(process("agent", lambda: made.agent.running(url, grace=0)))
        made.reach = await stack.enter_async_context(process("client", lambda: Reach.connect(url, agent_id="tester")))
        await made.call(total_s=10)
        watching = asyncio.create_task(made.lag.watch())
        try:
            yield made
        finally:
            watching.cancel()
            made.let_go.set()
            await made.stop_load()
            await made.abandon()
