"""Marks where records may be missing: a process that has stopped saying what it has written, and took no leave, was killed or cut off."""

from collections.abc import Callable

import msgspec

from reach.backend import Backend
from reach.log import PacedLog, event_log
from reach.tracing.record import LOST_PROCESS, HopRecord

#: Of a crowd that died together so many marks make one batch.
BATCH_MARKS = 100
log = event_log("reach.registry")


class LostRecorders:
    """What one reaper does about them. A mark is written before its process is forgotten: when this dies between, it is written again."""

    def __init__(self, backend: Backend, on_lost: Callable[[int], None] = lambda _: None) -> None:
        """`on_lost` hears of each process that was marked, once, also where it cannot be forgotten yet."""
        self._backend, self._on_lost = backend, on_lost
        self._told: set[tuple[str, int]] = set()  # marked and not forgotten: each comes again
        self._log = PacedLog(log)

    async def run(self, now_ms: int, silent_ms: int) -> int:
        """Mark those that have said nothing for so long; how many that were.

        Raises:
            BackendError: They cannot be read or marked now; the next run does.
        """
        before_ms = now_ms - silent_ms
        lost = await self._backend.silent_recorders(before_ms)
        self._told.intersection_update(lost)
        for start in range(0, len(lost), BATCH_MARKS):
            some = lost[start : start + BATCH_MARKS]
            marks = [_mark(name, at_ms, now_ms) for name, at_ms in some]
            await self._backend.record(0, msgspec.json.encode(marks))
            new = set(some) - self._told
            self._told |= new
            if new:
                self._on_lost(len(new))
            for name, at_ms in some:
                since_ms = now_ms - at_ms
                self._log.warning(
                    "ended without a word: its last records may be missing", of=name, recorder=name, ms=since_ms
                )
                await self._backend.forget_recorder(name, before_ms)
                self._told.discard((name, at_ms))
        return len(lost)


def _mark(name: str, at_ms: int, now_ms: int) -> HopRecord:
    """From the moment up to which all is written until now."""
    node, _, worker = name.rpartition("/")
    return HopRecord(
        at_us=now_ms * 1000,
        point="gap",
        msg_id="",
        leg=0,
        attempt=0,
        node=node,
        worker=worker,
        code=LOST_PROCESS,
        counts={"processes": 1},
        duration_us=max(now_ms - at_ms, 0) * 1000,
    )
