"""Says so where no worker serves an env: without one everything waits, and looks as if it hung."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from reach.backend.port import Backend
from reach.clock import Clock
from reach.errors import BackendError
from reach.service import Tasks
from reach.settings import safe_url

#: A worker leaves its mark every second or less.
SILENT_MS = 3_000
#: One that is just starting has so long before anybody complains; and so often it is looked again.
PATIENCE_MS = 1_000


async def nobody_serves(backend: Backend) -> bool:
    """Whether no worker has been at work on partition 0 for 3 s, or ever. Raises BackendError."""
    age_ms = await backend.worker_silence_ms(0)
    return age_ms is None or age_ms > SILENT_MS


def sentence(url: str, env: str) -> str:
    """What people are told."""
    return f"no worker serves env {env} at {safe_url(url)}: start one with `reach dev` or `reach-worker run`"


@asynccontextmanager
async def complaining(backend: Backend, clock: Clock, complain: Callable[[], None]) -> AsyncIterator[None]:
    """Inside, `complain` is called once if no worker serves. Nothing else changes: what waits goes on waiting."""
    tasks = Tasks()
    tasks.start(_watch(backend, clock, complain), "is anybody serving")
    try:
        yield
    finally:
        await tasks.close()


async def _watch(backend: Backend, clock: Clock, complain: Callable[[], None]) -> None:
    while True:
        await clock.sleep(PATIENCE_MS)
        try:
            if await nobody_serves(backend):
                complain()
            return
        except BackendError:
            continue  # Redis is away: that is told elsewhere
