"""Takes back what agents leave behind that have gone without a word: 30 s without a beat, and nothing that explains the silence.

So with the hop records of any process: of one that has said for 30 s nothing of what it has written, a gap is marked.
"""

from collections.abc import Callable
from itertools import groupby

from reach.backend import Backend
from reach.clock import Clock, SystemClock
from reach.registry.grace import LATE_MS, Grace
from reach.registry.lost_recorders import LostRecorders
from reach.registry.removing import remove_agent
from reach.registry.sweeper import Sweeper
from reach.service import Report

#: Six missed beats of 5 s.
REMOVE_MS = 30_000
LOCK_MS = 5_000
PACE_MS = 1_000
#: So often it looks for registrations that nobody beats for at all (their beats were lost, or their leave was not finished).
SWEEP_MS = 10_000


class Reaper:
    """A service; one at a time over all routers, by a lock. It removes nobody while its own looks come late, nor for 15 s after that.

    An agent's inboxes are closed before its registration goes: when it dies half-way, the next one finds the same and goes on.
    """

    name = "reaper"
    interval_ms = PACE_MS

    def __init__(
        self,
        backend: Backend,
        owner: str,
        *,
        clock: Clock | None = None,
        on_lost: Callable[[int], None] = lambda _: None,
    ) -> None:
        """`on_lost` hears how many processes have ended without a word, so that their last records may be missing."""
        self._backend = backend
        self._owner = owner
        self._clock: Clock = clock or SystemClock()
        self._grace = Grace(2 * PACE_MS)
        self._sweeper = Sweeper(backend)
        self._recorders = LostRecorders(backend, on_lost)
        self._looking_since_ms: int | None = None
        self._swept_at_ms = 0
        self._silent: dict[str, int] = {}  # agents without any beat -> when first seen so, by our own clock

    async def run_once(self) -> Report:
        """Remove the instances, and agents, that have been silent for too long."""
        now_ms = await self._backend.moment()  # a server that takes no writes takes no beats: such a look is none
        began_ms = self._clock.monotonic_ms()
        self._grace.look(now_ms, began_ms)
        if self._looking_since_ms is None:
            self._looking_since_ms = began_ms
        # Fresh eyes cannot know whether the silence is the agents' or was the server's.
        if self._grace.runs(now_ms) or began_ms - self._looking_since_ms < REMOVE_MS // 2:
            return {}
        if not await self._backend.lock(self.name, self._owner, LOCK_MS):
            self._silent.clear()
            return {}
        silent = [name for name, _, _ in await self._backend.overdue_beats(now_ms - REMOVE_MS)]
        silent += await self._sweep(began_ms)
        removed = instances = 0
        for agent_id, _ in groupby(sorted(silent)):
            if self._clock.monotonic_ms() - began_ms > LATE_MS:
                break  # what was read is old by now
            gone, left = await self._reap(agent_id, now_ms - REMOVE_MS)
            removed += gone
            instances += left
        lost = await self._mark(now_ms, began_ms)
        found = {"removed": removed, "instances": instances, "lost": lost}
        return {name: count for name, count in found.items() if count}

    async def _mark(self, now_ms: int, began_ms: int) -> int:
        """Mark gaps for the processes that are gone; none where this look is late: what was read is old by then."""
        if self._clock.monotonic_ms() - began_ms > LATE_MS:
            return 0
        return await self._recorders.run(now_ms, REMOVE_MS)

    async def _reap(self, agent_id: str, before_ms: int) -> tuple[int, int]:
        """Forget the silent instances of one agent, and the agent itself when no other is left: (agents, instances)."""
        stored, beats = await self._backend.registration(agent_id)
        silent = [instance_id for instance_id, at_ms in beats.items() if at_ms < before_ms]
        if len(silent) == len(beats):
            gone = await remove_agent(self._backend, agent_id, stored, before_ms=before_ms, why="silent")
            if not gone or stored is not None:
                return int(gone), len(silent) if gone else 0  # where it is not gone, the next run goes on
        for instance_id in silent:
            await self._backend.leave(agent_id, instance_id, before_ms)
        return 0, len(silent)

    async def _sweep(self, monotonic_ms: int) -> list[str]:
        """The agents that have been registered without any beat for too long. Consumers of processes that are gone go on the way."""
        if monotonic_ms - self._swept_at_ms < SWEEP_MS:
            return []
        self._swept_at_ms = monotonic_ms
        registered = (await self._backend.snapshot()).agents
        await self._sweeper.run(registered)
        _, beats = await self._backend.last_beats(0)
        mute = registered.keys() - {last.agent_id for last in beats}
        self._silent = {agent_id: self._silent.get(agent_id, monotonic_ms) for agent_id in mute}
        return [agent_id for agent_id, since_ms in self._silent.items() if monotonic_ms - since_ms >= REMOVE_MS]
