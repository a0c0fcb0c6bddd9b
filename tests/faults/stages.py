"""What the crash runs are played on: the memory backend, or a real server, each by the clock of the run.

Time passes only when the run says so, and a run can tell when everything that needs no time has happened.
"""

import asyncio
import functools
import inspect
from collections.abc import Mapping
from typing import Any, Protocol, cast

from reach.backend.memory_backend import MemoryBackend, Store
from reach.backend.port import Backend
from reach.testing import ManualClock
from tests.contract.memory_place import MemoryPlace
from tests.contract.places import ENV, Place
from tests.still_server import StillPlace


class Stage(Protocol):
    """A place whose clock the run moves.

    Attributes:
        place: What the test looks at, and writes into by hand.
        eye: A backend of the test's own, without faults.
    """

    clock: ManualClock
    place: Place
    eye: Backend

    def backend(self) -> Backend:
        """A new backend, not yet open."""
        ...

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def pass_time(self, ms: int) -> None:
        """Let time pass for everything, stored or waiting."""
        ...

    async def settle(self) -> None:
        """Let everything happen that needs no time."""
        ...


async def _turn_until_idle() -> None:
    ready = asyncio.get_running_loop()._ready  # type: ignore[attr-defined]
    await asyncio.sleep(0)
    while ready:
        await asyncio.sleep(0)


class _ManualPlace(MemoryPlace):
    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self.store = self._store = Store(clock)


class MemoryStage:
    """The memory backend."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self._place = _ManualPlace(self.clock)
        self.place: Place = self._place
        self.eye = self.backend()

    def backend(self) -> Backend:
        return MemoryBackend(env=ENV, store=self._place.store)

    async def open(self) -> None:
        await self.eye.open()

    async def close(self) -> None:
        await self.eye.close()

    async def pass_time(self, ms: int) -> None:
        self.clock.advance(ms)

    async def settle(self) -> None:
        await _turn_until_idle()


#: steps that change nothing that anybody could be waiting for
_READS = {
    "read_mail",
    "inspect",
    "ring",
    "hear",
    "registration",
    "snapshot",
    "written",
    "changes",
    "circuits",
    "last_beats",
    "overdue_beats",
    "silent_recorders",
    "now_ms",
    "read_events",
    "dead_letters",
    "open",
    "lock",
    "renew",
    "keep_mailbox",
}


class RedisStage:
    """A real server. Reads that wait do so by the clock of the run: they look again whenever something was written."""

    def __init__(self, url: str) -> None:
        self.clock = ManualClock()
        self.writes = 0
        self.waiting: set[asyncio.Event] = set()
        self.under_way = 0
        self._place = _RedisPlace(self, url)
        self.place: Place = self._place
        self.eye = self._shared = self._place.backend()

    def backend(self) -> Backend:
        return cast("Backend", _Patient(self, self._shared))

    async def open(self) -> None:
        await self._place.start()
        await self._shared.open()

    async def close(self) -> None:
        await self._shared.close()
        await self._place.close()

    async def pass_time(self, ms: int) -> None:
        if ms:
            await self._place.pass_time(ms)
        self.clock.advance(ms)

    async def settle(self) -> None:
        await _turn_until_idle()
        while self.under_way:
            await asyncio.sleep(0)
            if not self.under_way:
                await _turn_until_idle()

    def stir(self) -> None:
        """Something was written: whoever waits looks again."""
        self.writes += 1
        for wake in self.waiting:
            wake.set()


class _RedisPlace(StillPlace):
    def __init__(self, stage: RedisStage, url: str) -> None:
        super().__init__("redis", url, stage.clock.wall_ms())
        self._stage = stage

    async def append(self, key: str, fields: Mapping[str, bytes], entry_id: str = "*") -> str:
        made = await super().append(key, fields, entry_id)
        self._stage.stir()
        return made


class _Patient:
    """A backend of the stage, for one process."""

    def __init__(self, stage: RedisStage, inner: Backend) -> None:
        self._stage, self._inner = stage, inner

    async def close(self) -> None:
        """The server's connections are shared."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not inspect.iscoroutinefunction(found):
            return found
        blocks = "block_ms" in inspect.signature(found).parameters

        @functools.wraps(found)
        async def step(*args: Any, **kwargs: Any) -> Any:
            if blocks:
                return await self._wait(found, args, kwargs)
            result = await self._call(found, *args, **kwargs)
            if name not in _READS:
                self._stage.stir()
            return result

        return step

    async def _call(self, found: Any, *args: Any, **kwargs: Any) -> Any:
        self._stage.under_way += 1
        try:
            return await found(*args, **kwargs)
        finally:
            self._stage.under_way -= 1

    async def _wait(self, found: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        asked = inspect.signature(found).bind(*args, **kwargs)
        clock = self._stage.clock
        end_ms = clock.monotonic_ms() + asked.arguments["block_ms"]
        asked.arguments["block_ms"] = 0
        while True:
            looked_at = self._stage.writes
            result = await self._call(found, *asked.args, **asked.kwargs)
            left_ms = end_ms - clock.monotonic_ms()
            if result or left_ms <= 0:
                return result
            if looked_at != self._stage.writes:
                continue  # something was written while it looked
            wake = asyncio.Event()
            self._stage.waiting.add(wake)
            take_back = clock.call_later(left_ms, wake.set)
            try:
                await wake.wait()
            finally:
                take_back()
                self._stage.waiting.discard(wake)
