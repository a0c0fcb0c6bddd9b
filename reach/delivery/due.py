"""The service behind every timer: lost and overdue work, waits that are over, messages whose time is up. One zset, no scan over inboxes."""

import asyncio
from collections.abc import Sequence

import msgspec

from reach.backend.port import Backend
from reach.backend.steps import DueEvent
from reach.delivery.trail import Trail
from reach.errors import BackendError
from reach.service import Report

MAX_INTERVAL_MS = 1_000
MIN_INTERVAL_MS = 20
#: What `due` has touched comes back with a new, often near moment as soon as a router has decided: look again after so long.
SOON_MS = 100
MAX_ROUNDS = 100
MAX_LOOKUPS = 32


class _Members(msgspec.Struct):
    correlation_id: str = ""


_read = msgspec.json.Decoder(_Members).decode


class DueService:
    """Runs `due` when the next moment comes, and at least once a second. Any number of routers may do it at once."""

    name = "due"

    def __init__(self, backend: Backend, trail: Trail, partitions: Sequence[int]) -> None:
        self._backend, self._trail = backend, trail
        self._partitions = tuple(partitions)
        self._wait_ms = MAX_INTERVAL_MS

    @property
    def interval_ms(self) -> int:
        """Until the next moment that is known, 20 ms to 1 s."""
        return self._wait_ms

    async def run_once(self) -> Report:
        """Do what is due in every partition. Cancelling is safe: each call is one atomic step.

        Raises:
            BackendUnavailable: Redis is away.
        """
        wait_ms, touched = MAX_INTERVAL_MS, 0
        for partition in self._partitions:
            more, rounds = True, 0
            while more and rounds < MAX_ROUNDS:
                report = await self._backend.due(partition)
                touched += len(report.events)
                await self._tell(partition, report.events)
                more, rounds = report.more, rounds + 1
                if report.events:
                    wait_ms = min(wait_ms, SOON_MS)
                if report.next_at_ms:
                    wait_ms = min(wait_ms, report.next_at_ms - report.now_ms)
        self._wait_ms = max(wait_ms, MIN_INTERVAL_MS)
        return {"touched": touched} if touched else {}

    async def _tell(self, partition: int, events: Sequence[DueEvent]) -> None:
        told = [event for event in events if event.what != "again"]
        for start in range(0, len(told), MAX_LOOKUPS):
            part = told[start : start + MAX_LOOKUPS]
            conversations = await asyncio.gather(*(self._conversation(partition, event.msg_id) for event in part))
            for event, conversation in zip(part, conversations, strict=True):
                self._trail.due(partition, event, conversation)

    async def _conversation(self, partition: int, msg_id: str) -> str:
        """The conversation that a message belongs to; "" where its record is gone or cannot be read: the record is told without it."""
        try:
            record = await self._backend.inspect(partition, msg_id, 0)
            return _read("{" + record.head.members + "}").correlation_id if record is not None else ""
        except (BackendError, msgspec.MsgspecError):
            return ""
