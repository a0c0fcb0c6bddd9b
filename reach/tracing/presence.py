"""A process says up to when its records are written: of one that stops saying so without a farewell, some may be missing."""

from collections.abc import Awaitable, Callable

from reach.errors import BackendError
from reach.log import PacedLog, event_log

EVERY_US = 5_000_000
log = event_log("reach.hops")

Tell = Callable[[str, int | None], Awaitable[None]]
"""Says up to when (ms, by the clock of Redis) all records of a process are written; None: it ends in order: `backend.tell_recorder`."""


class Presence:
    """The word of one process, every 5 s. It follows the records, so that no record waits for it."""

    def __init__(self, tell: Tell, node: str, worker: str) -> None:
        self.told = False  # once at least
        self._tell = tell
        self._name = f"{node}/{worker}"
        self._next_us: int | None = 0  # None: it has taken its leave
        self._log = PacedLog(log)

    async def written(self, mark_us: int, at_us: int) -> None:
        """All that was recorded before `at_us` is written. `mark_us`: the same moment by the clock of the process, for the pace."""
        if self._next_us is None or (self.told and mark_us < self._next_us):
            return
        self._next_us = mark_us + EVERY_US
        self.told = True
        await self._say(at_us // 1000)

    async def leave(self) -> None:
        """Nothing was lost: nobody has to look for it. Twice is once."""
        if self._next_us is None:
            return
        self._next_us = None
        if self.told:
            await self._say(None)

    async def _say(self, at_ms: int | None) -> None:
        try:
            await self._tell(self._name, at_ms)
        except BackendError as error:  # the records are there all the same; at worst it counts as lost
            self._log.info("up to when records are written was not told", worker=self._name, error=error.code)
