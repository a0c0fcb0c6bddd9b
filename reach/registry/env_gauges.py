"""What metrics say of the whole env: how much lies where, who is there, who is gone. One router at a time tells it.

So a sum over all processes counts it once, and Redis is asked by one of them. When that one is gone, another takes over within 15 s.
"""

from collections.abc import Iterable

from reach.backend.depth_port import Depths
from reach.backend.port import Backend
from reach.clock import Clock
from reach.registry.capacity import Capacity, read_capacity
from reach.registry.watcher import Watcher
from reach.service import Report
from reach.tracing.metrics import MAX_NAMES, OTHER
from reach.tracing.readings import Reading

PACE_MS = 5_000
LOCK_MS = 3 * PACE_MS
#: What was seen so long ago is told no more: nothing is better than something old.
STALE_MS = 3 * PACE_MS
#: So many inboxes are looked at; of more agents those that run the most, by their beats.
MAX_LOOKED_AT = 1_000
ARCHIVE_GROUP = "archive"


class Names:
    """The first so many names have a series of their own; the others share one, until some of the first are gone."""

    def __init__(self, most: int = MAX_NAMES) -> None:
        self._most = most
        self._own: set[str] = set()

    def keep(self, there: Iterable[str]) -> None:
        """Only these are there now."""
        self._own &= set(there)

    def label(self, name: str) -> str:
        """The name, or `other`."""
        if name not in self._own:
            if len(self._own) >= self._most:
                return OTHER
            self._own.add(name)
        return name


class Seen:
    """What one look has found."""

    def __init__(self, at_ms: int, depths: Depths, capacity: list[Capacity]) -> None:
        self.at_ms, self.depths, self.capacity = at_ms, depths, capacity
        self.agents = self.circuits = 0
        self.offline: dict[str, int] = {}


class EnvGauges:
    """A service of a router's process, and a source of readings."""

    name = "env-gauges"
    interval_ms = PACE_MS

    def __init__(self, backend: Backend, watcher: Watcher, owner: str, clock: Clock) -> None:
        self._backend, self._watcher, self._owner, self._clock = backend, watcher, owner, clock
        self._seen: Seen | None = None
        self._agents, self._capabilities = Names(), Names()

    async def run_once(self) -> Report:
        """Look, where it is this process's turn; else tell nothing. Cancelling is safe.

        Raises:
            BackendError: Redis is away.
        """
        if not self._watcher.loaded or not await self._backend.lock(self.name, self._owner, LOCK_MS):
            self._seen = None
            return {}
        index, now_ms = self._watcher.index, self._watcher.now_ms()
        since_ms = index.alive_since_ms(now_ms)
        names = sorted(index.agents)
        if len(names) > MAX_LOOKED_AT:
            names = sorted(names, key=lambda name: -index.agents[name].history(since_ms).inflight)[:MAX_LOOKED_AT]
        depths = await self._backend.depths(names, ARCHIVE_GROUP)
        seen = Seen(self._clock.monotonic_ms(), depths, (await read_capacity(self._backend))[0])
        seen.agents = sum(bool(agent.alive(since_ms)) for agent in index.agents.values())
        seen.circuits = sum(map(len, index.circuits.values()))
        seen.offline = index.offline.counts(now_ms)
        self._agents.keep(index.agents)
        self._capabilities.keep(one.capability for one in seen.capacity)
        self._seen = seen
        return {"looked_at": len(names)}

    def __call__(self) -> Iterable[Reading]:
        """What was seen last; nothing where that is old, or another process's task."""
        seen = self._seen
        if seen is None or self._clock.monotonic_ms() - seen.at_ms > STALE_MS:
            return
        depths = seen.depths
        yield Reading("reach_workers", len(depths.workers), ("router",))
        yield Reading("reach_workers", len(depths.followers), ("archiver",))
        yield Reading("reach_agents", seen.agents)
        yield Reading("reach_circuits_open", seen.circuits)
        yield Reading("reach_dead_letters_kept", depths.dead)
        yield Reading("reach_archiver_lag", depths.behind)
        yield Reading("reach_archiver_lag_seconds", _age_s(depths.now_ms, depths.behind_since_ms))
        for why, count in seen.offline.items():
            yield Reading("reach_agents_offline", count, (why,))
        for one in seen.capacity:
            name = self._capabilities.label(one.capability)
            yield Reading("reach_capability_instances_wanted", one.wanted, (name,))
        yield from self._streams(depths)

    def _streams(self, depths: Depths) -> Iterable[Reading]:
        oldest: dict[str, int] = {"inbox": 0}
        if all(one.stream != "inbox" for one in depths.streams):
            yield Reading("reach_inflight", 0, ("",))
        for one in depths.streams:
            agent = self._agents.label(one.agent) if one.agent else ""
            yield Reading("reach_stream_lag", one.waiting, (one.stream, agent))
            yield Reading("reach_stream_pending", one.taken, (one.stream, agent))
            if one.stream == "inbox":
                yield Reading("reach_inflight", one.taken, (agent,))
            known = [at_ms for at_ms in (oldest.get(one.stream, 0), one.oldest_at_ms) if at_ms]
            oldest[one.stream] = min(known, default=0)
        for stream, at_ms in oldest.items():
            yield Reading("reach_oldest_pending_seconds", _age_s(depths.now_ms, at_ms), (stream,))


def _age_s(now_ms: int, at_ms: int) -> float:
    return max(now_ms - at_ms, 0) / 1000 if at_ms else 0.0
