"""Keeps the doors and the inboxes of the agents that live open: whatever somebody did to them, who only reads on or writes is served."""

import asyncio
from collections.abc import Callable

from reach.backend import Backend
from reach.errors import SERVER_ERRORS, BackendError
from reach.log import PacedLog, event_log
from reach.routing.index import CapabilityIndex
from reach.service import Report

log = event_log("reach.registry")

PACE_MS = 1_000
#: Whoever has the lease renews it with every look; when it dies, another one looks before two seconds are over twice.
LOCK_MS = 2_500
#: So many agents are looked at in one run, in turn, and so many inboxes (8 us of the server each); those that are used are healed at
#: once by the steps that use them.
MAX_AGENTS, MAX_INBOXES = 100, 400
AT_ONCE = 10


class Opener:
    """A service; one at a time over all routers, by a lock. Routers also ask it for an inbox that a step has found gone.

    It opens for nobody who is not registered: what was opened for an agent that has left in the same moment is closed again.
    """

    name = "opener"
    interval_ms = PACE_MS

    def __init__(self, backend: Backend, index: CapabilityIndex, owner: str, now_ms: Callable[[], int]) -> None:
        """`now_ms`: the clock of the backend."""
        self._backend, self._index, self._owner, self._now_ms = backend, index, owner, now_ms
        self._log = PacedLog(log)
        self._last = ""

    async def run_once(self) -> Report:
        """Look at the inboxes of the next few agents. Cancelling is safe."""
        if not await self._backend.lock(self.name, self._owner, LOCK_MS):
            return {}
        partitions = range(self._backend.partitions)
        for partition in partitions:
            if await self._backend.open_doors(partition):
                self._log.warning("doors opened again", of=partition, partition=partition)
        inboxes = [(partition, agent_id) for agent_id in self._next(len(partitions)) for partition in partitions]
        opened = 0
        for start in range(0, len(inboxes), AT_ONCE):
            done = await asyncio.gather(*(self._open(*inbox) for inbox in inboxes[start : start + AT_ONCE]))
            opened += done.count(True)
        return {"opened": opened} if opened else {}

    async def reopen(self, partition: int, agent_id: str) -> bool:
        """Open an inbox that is gone, if its agent lives. True: it is open.

        Raises:
            BackendUnavailable: Redis is away.
        """
        if not self._lives(agent_id, self._now_ms()):
            return False
        try:
            return await self._open(partition, agent_id) is not False
        except SERVER_ERRORS:
            raise
        except BackendError as error:  # something that no step can heal: the router goes on without this agent
            of = (agent_id, partition)
            self._log.warning("inbox not opened", of=of, agent=agent_id, partition=partition, error=str(error))
            return False

    def _lives(self, agent_id: str, now_ms: int) -> bool:
        agent = self._index.agents.get(agent_id)
        return agent is not None and agent.last_beat_ms() >= max(self._index.alive_since_ms(now_ms), 1)

    def _next(self, partitions: int) -> list[str]:
        now_ms = self._now_ms()
        live = sorted(agent_id for agent_id in self._index.agents if self._lives(agent_id, now_ms))
        most = max(min(MAX_AGENTS, MAX_INBOXES // partitions), 1)
        chosen = [agent_id for agent_id in live if agent_id > self._last][:most]
        self._last = chosen[-1] if len(chosen) == most else ""
        return chosen

    async def _open(self, partition: int, agent_id: str) -> bool | None:
        """None: it was open; else whether it is so now."""
        if not await self._backend.open_inbox(partition, agent_id):
            return None
        stored, beats = await self._backend.registration(agent_id)
        if stored is None or not beats:
            await self._backend.close_inbox(partition, agent_id)
            return False
        self._log.warning("inbox opened again", of=(agent_id, partition), agent=agent_id, partition=partition)
        return True
