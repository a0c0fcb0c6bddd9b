"""How a process is: whether its event loop turns in time, whether Redis answers it, what it is made of."""

import asyncio
import platform
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version

from reach.clock import Clock
from reach.errors import BackendError
from reach.service import Report, Vitals
from reach.tracing.hops import HopRecorder
from reach.tracing.readings import Reading

LOOK_MS = 250
REMEMBERED_MS = 10_000
ASK_EVERY_MS = 5_000
ANSWER_S = 3.0
#: Redis counts as up for so long after its last answer.
UP_MS = 15_000


class LoopWatch:
    """A service that measures how late it is called back."""

    name = "loop-watch"
    interval_ms = 0

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._late: deque[tuple[int, int]] = deque()  # when, and by how many ms

    async def run_once(self) -> Report:
        """Sleep, and see how long that took."""
        began_ms = self._clock.monotonic_ms()
        await self._clock.sleep(LOOK_MS)
        now_ms = self._clock.monotonic_ms()
        self._late.append((now_ms, max(now_ms - began_ms - LOOK_MS, 0)))
        while self._late[0][0] < now_ms - REMEMBERED_MS:
            self._late.popleft()
        return {}

    def __call__(self) -> Iterable[Reading]:
        """The worst of the last 10 s."""
        yield Reading("reach_loop_lag_seconds", max((late_ms for _, late_ms in list(self._late)), default=0) / 1000)


class ServerWatch:
    """A service that asks Redis for the time every 5 s."""

    name = "server-watch"
    interval_ms = ASK_EVERY_MS

    def __init__(self, ask_ms: Callable[[], Awaitable[int]], clock: Clock) -> None:
        self._ask_ms, self._clock = ask_ms, clock
        self._answered_at_ms: int | None = None

    async def run_once(self) -> Report:
        """Ask once. No answer is no failure of this service: to tell of it is its task."""
        try:
            async with asyncio.timeout(ANSWER_S):
                await self._ask_ms()
        except (TimeoutError, BackendError):
            self._answered_at_ms = None
        else:
            self._answered_at_ms = self._clock.monotonic_ms()
        return {}

    def __call__(self) -> Iterable[Reading]:
        """1 or 0."""
        at_ms = self._answered_at_ms
        up = at_ms is not None and self._clock.monotonic_ms() - at_ms <= UP_MS
        yield Reading("reach_redis_up", float(up))


def build() -> Iterable[Reading]:
    """The versions, as the labels of a 1."""
    try:
        own = version("reachmq")
    except PackageNotFoundError:
        own = "unknown"
    yield Reading("reach_build", 1.0, (own, platform.python_version()))


def of_recorder(hops: HopRecorder) -> Callable[[], Iterable[Reading]]:
    """What its buffer holds and has lost."""

    def read() -> Iterable[Reading]:
        yield Reading("reach_events_dropped_total", hops.dropped)
        yield Reading("reach_events_waiting", len(hops))

    return read


def of_services(vitals: Mapping[str, Vitals]) -> Callable[[], Iterable[Reading]]:
    """How often each has failed in a row."""
    return lambda: [Reading("reach_service_failures", one.failures, (name,)) for name, one in vitals.items()]
