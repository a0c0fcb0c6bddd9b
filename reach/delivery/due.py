"""The service behind every timer: lost and overdue work, waits that are over, messages whose time is up. One zset, no scan over inboxes."""

import asyncio
from collections.abc import Sequence

from reach.backend.port import Backend
from reach.backend.steps import DueEvent, Record
from reach.clock import Clock, SystemClock
from reach.delivery.trail import Trail
from reach.errors import BackendError
from reach.service import Report

MAX_INTERVAL_MS = 1_000
MIN_INTERVAL_MS = 20
#: What `due` has touched comes back with a new, often near moment as soon as a router has decided: look again after so long.
SOON_MS = 100
MAX_ROUNDS = 100
MAX_LOOKUPS = 32


class DueService:
    """Runs `due` when the next moment comes, and at least once a second. Any number of routers may do it at once.

    It waits inside its run, so that a router that has just made a leg wait can have it look earlier than it had planned.
    """

    name = "due"
    interval_ms = 0

    def __init__(
        self, backend: Backend, trail: Trail, partitions: Sequence[int], *, clock: Clock | None = None
    ) -> None:
        self._backend, self._trail = backend, trail
        self._partitions = tuple(partitions)
        self._clock: Clock = clock or SystemClock()
        self._at_ms = 0  # when the next look is planned, by our own clock
        self._nudged_at_ms: int | None = None  # the earliest moment that was asked for since the last look began
        self._moved = asyncio.Event()

    def nudge(self, wait_ms: int) -> None:
        """Something will be due in so many ms: look then, if nothing earlier is planned."""
        at_ms = self._clock.monotonic_ms() + max(wait_ms, 0) + 1
        if self._nudged_at_ms is None or at_ms < self._nudged_at_ms:
            self._nudged_at_ms = at_ms
        if at_ms < self._at_ms:
            self._at_ms = at_ms
            self._moved.set()

    def interrupt(self) -> None:
        """Look now, and do not wait."""
        self.nudge(0)

    async def run_once(self) -> Report:
        """Wait for the next moment that is known, 1 s at most, and do what is due in every partition. Cancelling is safe.

        Raises:
            BackendUnavailable: Redis is away.
        """
        await self._wait()
        self._nudged_at_ms = None
        wait_ms, touched = MAX_INTERVAL_MS, 0
        for partition in self._partitions:
            more, rounds = True, 0
            while more and rounds < MAX_ROUNDS:
                mark = self._trail.mark()
                report = await self._backend.due(partition)
                touched += len(report.events)
                await self._tell(partition, report.events, mark)
                more, rounds = report.more, rounds + 1
                if report.next_at_ms:
                    wait_ms = min(wait_ms, report.next_at_ms - report.now_ms)
        self._plan(self._clock.monotonic_ms() + max(wait_ms, MIN_INTERVAL_MS))
        return {"touched": touched} if touched else {}

    def _plan(self, at_ms: int) -> None:
        self._at_ms = at_ms if self._nudged_at_ms is None else min(at_ms, self._nudged_at_ms)

    async def _wait(self) -> None:
        while (left_ms := self._at_ms - self._clock.monotonic_ms()) > 0:
            self._moved.clear()
            take_back = self._clock.call_later(left_ms, self._moved.set)
            try:
                await self._moved.wait()
            finally:
                take_back()

    async def _tell(self, partition: int, events: Sequence[DueEvent], mark: int) -> None:
        told = [event for event in events if event.what != "again"]
        for start in range(0, len(told), MAX_LOOKUPS):
            part = told[start : start + MAX_LOOKUPS]
            records = await asyncio.gather(*(self._record(partition, event) for event in part))
            for event, record in zip(part, records, strict=True):
                self._trail.due(partition, event, record, mark)

    async def _record(self, partition: int, event: DueEvent) -> Record | None:
        """What the ledger says of it now; None where that is gone or cannot be read: its hop record says less then."""
        try:
            return await self._backend.inspect(partition, event.msg_id, event.leg, envelope=True)
        except BackendError:
            return None
