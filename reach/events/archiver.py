"""Moves hop records from Redis into a store, each at least once and each kept once; what was trimmed before is told as a gap."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Protocol

import msgspec

from reach.backend.followed import Followed, Trimmed
from reach.errors import BackendError, ConfigError
from reach.events.gaps import gaps_of
from reach.events.junk import Junk
from reach.events.reading import events_in
from reach.events.store import DAY_US, LAST_US, Event, EventStore, StoreUnavailable
from reach.log import PacedLog, event_log
from reach.service import Report

GROUP = "archive"
MAX_BATCHES = 100
PACE_MS = 200
PRUNE_EVERY_RUNS = 3_000
#: What another archiver holds for so long is taken over: it is dead, or its store is away.
TAKE_OVER_MS = 30_000
#: So long `close` may still move what is left; the rest is for another archiver, or for the next start.
CLOSE_S = 5.0
#: A record that says it happened longer before or after it was written is filed under the moment when that was.
MAX_ODD_US = 2 * DAY_US
log = event_log("reach.events")


class EventSource(Protocol):
    """What is read: the part of a backend that whoever follows the events needs."""

    async def now_ms(self) -> int: ...

    async def follow_events(
        self,
        partition: int,
        group: str,
        reader: str,
        max_batches: int = 100,
        idle_ms: int = 30_000,
        after: str = "0",
        noted: Trimmed | None = None,
    ) -> Followed: ...

    async def finish_events(self, partition: int, group: str, entry_ids: Sequence[str]) -> None: ...

    async def unfollow_events(self, partition: int, group: str, reader: str) -> None: ...


class Archiver:
    """A service. Several share the work; while the store is away, what is read waits, and no router waits for it."""

    name = "archiver"

    def __init__(
        self,
        source: EventSource,
        store: EventStore,
        partitions: Sequence[int],
        reader: str,
        *,
        take_over_ms: int = TAKE_OVER_MS,
    ) -> None:
        self._source, self._store = source, store
        self._take_over_ms = take_over_ms
        self._partitions, self._reader = tuple(partitions), reader
        self._noted: dict[int, Trimmed] = {}  # by partition: a gap that the store has
        self._told: dict[int, int] = {}  # by partition: how much of what is missing now has been counted
        self._full = False
        self._runs = 0
        self.kept = self.unreadable = 0  # records; a batch that is none counts as one
        self.missed = 0  # batches that were gone before
        self.failures = 0  # runs that the store has ended
        self._opened = False
        self._log, self._junk = PacedLog(log), Junk(log)

    @property
    def interval_ms(self) -> int:
        """At once where more may lie there."""
        return 0 if self._full else PACE_MS

    async def run_once(self) -> Report:
        """Keep what has been recorded since. Cancelling is safe: what is not finished comes again.

        Raises:
            StoreUnavailable: The store is away; the same records come again.
            ConfigError: It cannot be used as it is, before somebody has put it right.
            BackendError: Redis is.
        """
        try:
            return await self._run()
        except (StoreUnavailable, ConfigError):
            self.failures += 1
            raise

    async def _run(self) -> Report:
        self._full = False
        if not self._opened:
            await self._store.open()
            self._opened = True
        if self._runs % PRUNE_EVERY_RUNS == 0:
            await self._tidy()
        self._runs += 1
        kept = 0
        for partition in self._partitions:
            kept += await self._archive(partition)
        return {"kept": kept} if kept else {}

    async def _tidy(self) -> None:
        """Let go of what is old, and forget the readers that died and hold nothing: each start of an archiver is a new one."""
        try:
            await self._store.prune(await self._source.now_ms() * 1000)
        except StoreUnavailable as error:  # a file that cannot be deleted must not keep the new ones out
            self._log.warning("old events could not be let go", error=str(error))
        for partition in self._partitions:
            await self._source.unfollow_events(partition, GROUP, "")

    async def _archive(self, partition: int) -> int:
        followed = await self._source.follow_events(
            partition,
            GROUP,
            self._reader,
            MAX_BATCHES,
            idle_ms=self._take_over_ms,
            noted=self._noted.get(partition),
        )
        self._noted.pop(partition, None)
        gaps: list[Event] = []
        if followed.trimmed is not None or followed.gone:  # else nobody asks what time it is: this runs at all hours
            gaps = list(gaps_of(partition, followed, await self._source.now_ms()))
        self._count(partition, followed)
        # In a thread: the loop may serve a router beside it, which must not wait for thousands of records.
        events = await asyncio.to_thread(lambda: [*self._events(partition, followed.batches)])
        self._junk.tell()
        events += gaps
        if events:
            await self._store.write(events)
        # Only now: an archiver that is killed before this is followed by one that hears the same, of gaps as well.
        self._told.pop(partition, None)
        if followed.trimmed is not None:
            self._noted[partition] = followed.trimmed
        through = [*followed.gone, *(entry_id for entry_id, _ in followed.batches)]
        await self._source.finish_events(partition, GROUP, through)
        self.kept += len(events)
        self._full |= len(followed.batches) >= MAX_BATCHES or bool(gaps)
        return len(events)

    def _events(self, partition: int, batches: Iterable[tuple[str, bytes]]) -> Iterator[Event]:
        """Their records. What is none (junk, a later form) is told and left out, so that it cannot stop the rest."""
        for entry_id, batch in batches:
            written_us = _moment_of(entry_id)
            for event in events_in(partition, batch, partial(self._unread, partition, entry_id)):
                if abs(event.at_us - written_us) > MAX_ODD_US:
                    yield msgspec.structs.replace(event, at_us=written_us)
                else:
                    yield event

    def _unread(self, partition: int, entry_id: str, number: int | None, why: str) -> None:
        self.unreadable += 1
        self._junk.add(partition, entry_id, number, why)

    def _count(self, partition: int, followed: Followed) -> None:
        """What is missing is told until the store has the gap, and counted once."""
        missing = len(followed.gone) + (followed.trimmed.count if followed.trimmed is not None else 0)
        new = max(missing - self._told.get(partition, 0), 0)
        if new:
            self._told[partition] = missing
            self.missed += new
            self._log.warning("records were gone before they were kept", of=str(partition), batches=new)

    async def close(self) -> None:
        """Keep what is left, as far as that goes in a few seconds, leave the group, close the store."""
        try:
            async with asyncio.timeout(CLOSE_S):
                while await self.run_once():
                    pass
            for partition in self._partitions:
                await self._source.unfollow_events(partition, GROUP, self._reader)
        except (BackendError, ConfigError, TimeoutError) as error:  # another archiver takes over what is not finished
            log.warning("events left to others", extra={"error": str(error) or "there was no more time"})
        finally:
            self._junk.tell(last=True)
            await self._store.close()


def _moment_of(entry_id: str) -> int:
    """When an entry was written, in us, as its id says; somebody may have put one of the far future there."""
    return min(int(entry_id.partition("-")[0]) * 1000, LAST_US)
