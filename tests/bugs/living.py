"""Agents in processes of their own, and a witness of who was seen, was suspect or was removed meanwhile."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from reach import Reach
from reach.registry.watcher import Watcher
from reach.routing.index import CapabilityIndex
from reach.service import Supervisor
from reach.testing import wait_until
from tests.bugs import blocking_agent
from tests.e2e.processes import ROOT, environ


@asynccontextmanager
async def agent_process(url: str, agent_id: str, **extra: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """One of tests/bugs/blocking_agent.py; killed at the end if it still runs."""
    command = [sys.executable, "-m", blocking_agent.__name__, agent_id]
    process = await asyncio.create_subprocess_exec(*command, env=environ(REACH_REDIS_URL=url, **extra), cwd=ROOT)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def instances(reach: Reach, agent_id: str) -> dict[str, int]:
    """Its instances, and when each has beaten last."""
    return (await reach.backend.registration(agent_id))[1]


async def serving(reach: Reach, *agent_ids: str) -> None:
    """Wait until they are there."""

    async def there() -> bool:
        return all([await reach.backend.registered(agent_id) is not None for agent_id in agent_ids])

    await wait_until(there, 30, f"the registration of {agent_ids}")


async def gone(reach: Reach) -> list[str]:
    """Every agent and instance that has been told to be gone."""
    found, cursor = [], "0-0"
    while changes := await reach.backend.changes(cursor, 0):
        found += [change.name for change in changes if change.op == "gone"]
        cursor = changes[-1].id
    return found


class Witness:
    """A router's eyes: every state that any of its agents was seen in, told or not."""

    def __init__(self, reach: Reach) -> None:
        self.watcher = Watcher(reach.backend, CapabilityIndex())
        self.seen: dict[str, set[str]] = {}

    @property
    def now(self) -> dict[str, str]:
        index = self.watcher.index
        since_ms = index.alive_since_ms(self.watcher.now_ms())
        return {agent_id: agent.state(since_ms) for agent_id, agent in index.agents.items()}

    async def look(self) -> None:
        while True:
            if self.watcher.loaded:
                for agent_id, state in self.now.items():
                    self.seen.setdefault(agent_id, set()).add(state)
            await asyncio.sleep(0.05)


@asynccontextmanager
async def watched(url: str) -> AsyncIterator[Witness]:
    """A witness at work."""
    async with Reach.connect(url, agent_id="witness") as reach:
        witness = Witness(reach)
        async with Supervisor([witness.watcher]):
            looking = asyncio.create_task(witness.look())
            try:
                await witness.watcher.wait_loaded()
                yield witness
            finally:
                looking.cancel()
                await asyncio.wait([looking])


async def beat_of(reach: Reach, agent_id: str) -> dict[str, object]:
    """What its newest instance says of itself."""
    _, beats = await reach.backend.last_beats(0)
    own = [last for last in beats if last.agent_id == agent_id]
    found: dict[str, object] = msgspec.json.decode(max(own, key=lambda last: last.at_ms).beat) if own else {}
    return found
