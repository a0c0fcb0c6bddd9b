"""Time for local waits. Redis TIME alone decides expiry, delay and leases; this clock never does."""

import asyncio
import time
from typing import Protocol


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
