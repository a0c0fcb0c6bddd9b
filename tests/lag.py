"""How late the machine itself is: what a test measures may be late by so much, and no bound of ours is proved or broken by it."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

LOOK_S = 0.01
#: from a cause to what is measured several tasks and processes wake one after the other, each as late as the worst that was seen
WAKES = 5


@dataclass
class Lag:
    """The longest that this process was kept from looking at its timers: nobody can be on time by more than that."""

    worst_s: float = 0.0

    @property
    def allowed_s(self) -> float:
        """What a chain of a few wake-ups may be late by: next to nothing on a machine that is idle."""
        return WAKES * (self.worst_s + LOOK_S)

    async def watch(self) -> None:
        while True:
            asleep = time.monotonic()
            await asyncio.sleep(LOOK_S)
            self.worst_s = max(self.worst_s, time.monotonic() - asleep - LOOK_S)


@asynccontextmanager
async def lagging() -> AsyncIterator[Lag]:
    """It is watched inside."""
    lag = Lag()
    watching = asyncio.create_task(lag.watch())
    try:
        yield lag
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching


@asynccontextmanager
async def in_time(seconds: float) -> AsyncIterator[None]:
    """What is done inside takes no longer than that, and what this machine is late by."""
    began = time.monotonic()
    async with lagging() as lag:
        yield
        took_s = time.monotonic() - began
    assert took_s < seconds + lag.allowed_s, f"{took_s:.3f} s, not {seconds} s; {lag}"
