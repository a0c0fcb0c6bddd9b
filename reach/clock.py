"""Time for local waits. Redis TIME alone decides expiry, delay and leases; this clock never does."""

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

Cancel = Callable[[], None]
"""Takes a planned call back; twice is once, and too late is no error."""


class Clock(Protocol):
    """What may be asked of time inside a process."""

    def monotonic_ms(self) -> int:
        """Milliseconds that never go back, from an arbitrary start: for measuring and waiting."""
        ...

    def wall_ms(self) -> int:
        """Unix milliseconds: for information only (an envelope's timestamp, a log line)."""
        ...

    async def sleep(self, ms: int) -> None:
        """Wait for so many milliseconds. Cancelling is safe."""
        ...

    def call_later(self, ms: int, call: Callable[[], None]) -> Cancel:
        """Plan `call` in so many milliseconds, in the running event loop; returns what takes it back."""
        ...


class SystemClock:
    """The clock of this machine."""

    def monotonic_ms(self) -> int:
        """Milliseconds that never go back."""
        return time.monotonic_ns() // 1_000_000

    def wall_ms(self) -> int:
        """Unix milliseconds."""
        return time.time_ns() // 1_000_000

    async def sleep(self, ms: int) -> None:
        """Wait for so many milliseconds; zero or less gives way once."""
        await asyncio.sleep(max(ms, 0) / 1000)

    def call_later(self, ms: int, call: Callable[[], None]) -> Cancel:
        """Use a timer of the running loop."""
        return asyncio.get_running_loop().call_later(max(ms, 0) / 1000, call).cancel
