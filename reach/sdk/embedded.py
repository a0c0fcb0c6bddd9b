"""Everything in one process, on memory: a router beside its clients and agents. Nothing to install, nothing shared, nothing durable."""

import asyncio
import logging
import os
import random
from collections.abc import Callable

from reach import settings
from reach.backend import open_backend
from reach.backend.memory_backend import MemoryBackend, Store
from reach.backend.port import Backend
from reach.clock import Clock, SystemClock
from reach.log import event_log
from reach.sdk.places import Place, RedisPlace
from reach.sdk.routers import router_services
from reach.service import Supervisor
from reach.tracing.contents import asked_contents
from reach.tracing.hops import HopRecorder
from reach.tracing.time_base import time_base

#: How long the last hop records may take.
RECORDS_LEFT_MS = 1_000
log = event_log("reach")

DRAIN_MS = 1_000


class MemoryPlace:
    """A memory of its own, with a router that runs while somebody is there."""

    threads = False

    def __init__(
        self,
        env: str,
        *,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        make: Callable[[], Backend] | None = None,
        warns: bool = True,
    ) -> None:
        """`make` gives backends of one memory; without it there is one that nobody else has. Raises ConfigError for a bad env."""
        open_backend("memory://", env=env)
        self.env = env
        self.clock: Clock = clock or SystemClock()
        self.rng = rng or random.Random()  # noqa: S311 - jitter, no secret
        self.worker_id = f"embedded-{os.urandom(6).hex()}"
        store = Store(self.clock)
        self._make: Callable[[], Backend] = make or (lambda: MemoryBackend(env=env, store=store))
        self._level = logging.WARNING if warns else logging.DEBUG
        self._present = 0
        self._router_backend: Backend | None = None
        self._supervisor: Supervisor | None = None
        self._hops: HopRecorder | None = None
        self._moving = asyncio.Lock()

    def backend(self) -> Backend:
        """A new backend of this memory."""
        return self._make()

    async def enter(self) -> None:
        """The first one starts the router."""
        async with self._moving:
            self._present += 1
            if self._present == 1:
                log.log(
                    self._level,
                    "embedded: in this process alone, gone with it, shared with nobody",
                    extra={"env": self.env},
                )
                await self._start()

    async def leave(self) -> None:
        """The last one stops it."""
        async with self._moving:
            self._present -= 1
            if self._present == 0:
                await self.stop()

    async def _start(self) -> None:
        backend = self._router_backend = self.backend()
        await backend.open()
        hops = self._hops = HopRecorder(
            backend.record,
            time_base(self.clock),
            worker=self.worker_id,
            ask_ms=backend.now_ms,
            contents=asked_contents(backend),
        )
        services = router_services(
            backend, hops, range(backend.partitions), self.worker_id, clock=self.clock, rng=self.rng
        )
        self._supervisor = Supervisor(services, clock=self.clock, rng=self.rng)
        self._supervisor.start()

    async def stop(self) -> None:
        """End the router. Twice is once."""
        if self._supervisor is not None:
            await self._supervisor.stop(drain_ms=0)
        if self._hops is not None:
            await self._hops.close(RECORDS_LEFT_MS)
        if self._router_backend is not None:
            await self._router_backend.close()
        self._supervisor = self._router_backend = self._hops = None


_SHARED: dict[tuple[asyncio.AbstractEventLoop, str, str], MemoryPlace] = {}


def shared_place(url: str, env: str) -> MemoryPlace:
    """The place of a `memory://` URL: the same one for the same URL and env in one event loop.

    Raises:
        ConfigError: The URL or the env cannot be used.
    """
    open_backend(url, env=env)
    for loop in {key[0] for key in _SHARED if key[0].is_closed()}:
        for key in [key for key in _SHARED if key[0] is loop]:
            del _SHARED[key]
    key = (asyncio.get_running_loop(), url, env)
    if key not in _SHARED:
        _SHARED[key] = MemoryPlace(env, make=lambda: open_backend(url, env=env))
    return _SHARED[key]


def place_of(url: str | None, env: str | None) -> Place:
    """The place that these, or the environment of this process, name.

    Raises:
        ConfigError: The URL or the env cannot be used.
    """
    told = settings.of_this_process({"redis-url": url, "env": env})
    if told.redis_url.startswith("memory:"):
        return shared_place(told.redis_url, told.env)
    return RedisPlace(told.redis_url, told.env)
