"""What is written down for the whole env, also by plain commands (HSET reach:{E}:routes ...), which are told to nobody."""

from reach.clock import Clock, SystemClock
from reach.registry.watcher import Watcher
from reach.service import Report

LOOK_MS = 40
MAX_LOOK_MS = 1_000
#: An env with thousands of policies is looked at less often: a look may take an eighth of the time, most of which it waits.
SHARE = 8


class Looking:
    """A service that looks at what is written down, and has the watcher take in what differs from what it knows."""

    name = "written"

    def __init__(self, watcher: Watcher, clock: Clock | None = None) -> None:
        self._watcher = watcher
        self._clock: Clock = clock or SystemClock()
        self._took_ms = 0

    @property
    def interval_ms(self) -> int:
        """So often that a change is followed within 100 ms, while a look costs next to nothing."""
        return min(max(LOOK_MS, SHARE * self._took_ms), MAX_LOOK_MS)

    async def run_once(self) -> Report:
        """Look once."""
        began_ms = self._clock.monotonic_ms()
        found = await self._watcher.look()
        self._took_ms = self._clock.monotonic_ms() - began_ms
        return {"changes": found} if found else {}
