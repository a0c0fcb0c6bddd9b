"""A router in the test's own loop, and agents in processes of their own."""

import asyncio
import os
import random
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from reach.backend import open_backend
from reach.clock import SystemClock
from reach.errors import BackendUnavailable
from reach.sdk.routers import router_services
from reach.service import Supervisor
from reach.tracing.hops import HopRecorder
from reach.tracing.time_base import TimeBase

ROOT = Path(__file__).parents[3]


@asynccontextmanager
async def router(
    url: str, worker: str = "w1", *, env: str = "dev", token_keys: Sequence[str] = ()
) -> AsyncIterator[Supervisor]:
    """A router that runs inside."""
    backend = open_backend(url, env=env)
    await backend.open()
    hops = HopRecorder(backend.record, TimeBase(), worker=worker, ask_ms=backend.now_ms)
    services = router_services(
        backend,
        hops,
        range(backend.partitions),
        worker,
        clock=SystemClock(),
        rng=random.Random(1),
        token_keys=token_keys,
    )
    supervisor = Supervisor(services)
    supervisor.start()
    try:
        yield supervisor
    finally:
        await supervisor.stop(drain_ms=100)
        with suppress(BackendUnavailable):  # where the server is there
            await backend.drop_consumer(worker, range(backend.partitions))  # as a worker does that ends
        await backend.close()


@asynccontextmanager
async def agent_process(url: str, *agent_ids: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Agents (tests/integration/sdk/worker_agent.py) in one process; killed at the end if it still runs."""
    environment = {**os.environ, "REACH_REDIS_URL": url, "PYTHONPATH": str(ROOT)}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.integration.sdk.worker_agent", *agent_ids, env=environment, cwd=ROOT
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
