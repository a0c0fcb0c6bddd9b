"""Reads `events` in a group of its own and exports one span per record: at least once, away from the routers, bounded.

A trace lies in many partitions, and whether it is kept is decided over all of it: so one worker of the env does this at a time, for all
partitions (a lease), and the others stand by. All read under one name: whoever has the lease goes on where the last one stopped.
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import msgspec
from opentelemetry.sdk.trace import ReadableSpan

from reach.backend.followed import Followed, Trimmed
from reach.backend.port import Backend
from reach.errors import BackendError, BackendUnavailable
from reach.events.gaps import gap_records
from reach.events.junk import Junk
from reach.events.store import bodies_of
from reach.log import PacedLog, event_log
from reach.service import Report
from reach.settings import Settings
from reach.tracing.exporting import Outlet, open_outlet
from reach.tracing.joining import Joiner
from reach.tracing.record import BATCHES, HopRecord
from reach.tracing.sampling import Item, Sampling, TailSampler, sampling_of
from reach.tracing.spans import resources, span_of

GROUP = READER = "spans"
LOCK_MS = 30_000  # longer than one attempt to export: OTEL_EXPORTER_OTLP_TIMEOUT is 10 s where nothing is said
MAX_BATCHES = 50
PACE_MS = 200
IDLE_MS = 60_000
CLOSE_S = 3.0
EXPORT_SPANS = 512
log = event_log("reach.spans")

_Entry = tuple[int, str]
"""A batch: its partition and its entry id."""


class SpanSource(Protocol):
    """What is read: the part of a backend that this service needs."""

    async def now_ms(self) -> int: ...

    async def lock(self, service: str, owner: str, ttl_ms: int) -> bool: ...

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


class SpanService:
    """A service. While the collector is away nothing more is read: it waits in Redis, and what is trimmed there is told as a gap."""

    name = "spans"

    def __init__(
        self,
        source: SpanSource,
        outlet: Outlet,
        partitions: Sequence[int],
        owner: str,
        *,
        sampling: Sampling | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """`environ`: for OTEL_BSP_SCHEDULE_DELAY and OTEL_BSP_MAX_EXPORT_BATCH_SIZE."""
        self._source, self._outlet, self._owner = source, outlet, owner
        self._partitions = tuple(partitions)
        self._sampling = sampling or Sampling()
        said = environ or {}
        self._pace_ms = _whole(said, "OTEL_BSP_SCHEDULE_DELAY", PACE_MS)
        self._at_once = _whole(said, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", EXPORT_SPANS)
        self._resource = resources()
        self._decode_record = msgspec.json.Decoder(HopRecord).decode
        self._log, self._junk = PacedLog(log), Junk(log)
        self._away = False
        self._full = False
        self.exported = self.refused = 0  # spans, over the whole life
        self.missed = 0  # batches that were gone before
        self._forget()

    def _forget(self) -> None:
        """What is held here comes again to whoever has the lease."""
        self._sampler: TailSampler[_Entry] = TailSampler(self._sampling)
        self._outgoing: deque[tuple[ReadableSpan, _Entry]] = deque()
        self._left: dict[_Entry, int] = {}  # records of a batch that are neither exported nor dropped
        self._after = dict.fromkeys(self._partitions, "0")
        self._noted: dict[int, Trimmed] = {}  # by partition: a gap whose span the collector has
        self._gaps: dict[_Entry, Followed] = {}  # those whose spans are on their way
        self._seen_us = 0
        self._joiner = Joiner()

    @property
    def interval_ms(self) -> int:
        """At once where more may lie there."""
        return 0 if self._full else self._pace_ms

    async def run_once(self) -> Report:
        """Export what has been recorded since the last run, or has been decided by now.

        Raises:
            BackendUnavailable: The collector is away; the same spans are sent again.
            BackendError: Redis is.
        """
        self._full = False
        if not await self._source.lock("spans", self._owner, LOCK_MS):
            if self._left:
                self._forget()
            return {}
        exported = await self._send()  # first what could not be sent: meanwhile nothing is read
        now_us = await self._source.now_ms() * 1000
        for partition in self._partitions:
            await self._read(partition, now_us)
        self._junk.tell()
        decided = self._sampler.due(self._seen_us if self._full else now_us)
        self._take(decided.kept, decided.dropped)
        exported += await self._send()
        return {"exported": exported} if exported else {}

    async def _read(self, partition: int, now_us: int) -> None:
        followed = await self._source.follow_events(
            partition,
            GROUP,
            READER,
            MAX_BATCHES,
            IDLE_MS,
            self._after[partition],
            self._noted.get(partition),
        )
        self._noted.pop(partition, None)
        self._mark(partition, followed, now_us // 1000)
        for entry_id, batch in followed.batches:
            entry = (partition, entry_id)
            if entry in self._left:  # it is held here, and was taken over from ourselves
                continue
            self._after[partition] = entry_id
            records = self._records(entry, batch)
            self._left[entry] = len(records)
            for record in records:
                self._seen_us = max(self._seen_us, record.at_us)
                decided = self._sampler.add(self._joiner.join(record), entry)
                self._take(decided.kept, decided.dropped)
        self._full |= len(followed.batches) >= MAX_BATCHES or followed.trimmed is not None

    def _mark(self, partition: int, followed: Followed, now_ms: int) -> None:
        """A span for each gap. It is noted when that is exported: whoever takes over before hears the same, and sends the same ids."""
        gone = tuple(
            entry_id for entry_id in followed.gone if (partition, entry_id) not in self._left
        )  # what is held is not lost
        for part in (Followed(trimmed=followed.trimmed), Followed(gone=gone)):
            for name, record in gap_records(part, now_ms):
                batches = record.counts[BATCHES]
                self._log.warning("records were gone before they were exported", of=partition, batches=batches)
                self.missed += batches
                self._gaps[partition, name] = part
                span = span_of(msgspec.structs.replace(record, worker=GROUP), self._resource, partition)
                assert span is not None
                self._outgoing.append((span, (partition, name)))

    def _note(self, entry: _Entry) -> None:
        """The collector has the span of a gap."""
        partition, followed = entry[0], self._gaps.pop(entry)
        if followed.trimmed is not None:
            self._noted[partition] = followed.trimmed
        self._left |= {(partition, entry_id): 0 for entry_id in followed.gone}

    def _records(self, entry: _Entry, batch: bytes) -> list[HopRecord]:
        """The records of a batch; what is none (a later form, junk) is told and left out, so that it cannot stop the rest."""
        records = []
        try:
            raws = bodies_of(batch)
        except ValueError as error:
            self._junk.add(*entry, None, str(error)[:200])
            return []
        for number, raw in enumerate(raws):
            try:
                records.append(self._decode_record(raw))
            except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
                self._junk.add(*entry, number, str(error)[:200])
        return records

    def _take(self, kept: Iterable[Item[_Entry]], dropped: Iterable[Item[_Entry]]) -> None:
        for record, entry in kept:
            span = span_of(record, self._resource, entry[0])
            if span is None:
                self._release(entry)
            else:
                self._outgoing.append((span, entry))
        for item in dropped:
            self._release(item.of)

    def _release(self, entry: _Entry) -> None:
        if entry in self._gaps:
            self._note(entry)
        elif entry in self._left:
            self._left[entry] -= 1

    async def _send(self) -> int:
        """Export what has been decided, and finish the batches of which nothing is left."""
        exported = 0
        while self._outgoing:
            size = min(len(self._outgoing), self._at_once)
            self._away = True  # until it has answered: whoever is cancelled meanwhile does not try once more
            sent = await self._send_some(size)
            if not sent:
                raise BackendUnavailable(
                    f"the collector did not take {size} of {len(self._outgoing)} spans", code="otlp.unavailable"
                )
            exported += sent
        self._away = False
        done = [entry for entry, left in self._left.items() if left <= 0]
        for partition in {partition for partition, _ in done}:
            await self._source.finish_events(partition, GROUP, [entry_id for of, entry_id in done if of == partition])
        for entry in done:
            del self._left[entry]
        return exported

    async def _send_some(self, size: int) -> int:
        """How many of the first `size` are through with: fewer where some were refused for good. 0: the collector is away."""
        head = [self._outgoing[n] for n in range(size)]
        sent = await asyncio.to_thread(self._outlet.send, [span for span, _ in head])
        if sent == "refused" and size > 1:
            return await self._send_some(size // 2)
        if sent == "away":
            return 0
        if sent == "taken":
            self.exported += size
        if sent == "refused":
            self.refused += 1
            span = head[0][0]
            self._log.warning("the collector refused a span", of=span.name, span=span.name, refused=self.refused)
        for _, entry in head:
            self._outgoing.popleft()
            self._release(entry)
        await self._source.lock("spans", self._owner, LOCK_MS)
        return size

    async def close(self) -> None:
        """Export the last records, unless the collector is away, and end the exporter. What is held stays for the next worker."""
        try:
            async with asyncio.timeout(CLOSE_S):
                while not self._away and await self.run_once():
                    pass
                for partition in self._partitions:
                    await self._source.unfollow_events(partition, GROUP, READER)
        except (BackendError, TimeoutError) as error:
            log.info("spans left to others", extra={"error": str(error)})
        finally:
            self._junk.tell(last=True)
            await asyncio.to_thread(self._outlet.close)


def open_spans(backend: Backend, settings: Settings, owner: str, environ: Mapping[str, str]) -> SpanService:
    """The service of a worker.

    Raises:
        ConfigError: A variable or a setting that cannot be used, or an extra that is missing.
    """
    sampling = sampling_of(environ, share=settings.trace_share, slow_ms=settings.trace_slow_ms, env=settings.env)
    partitions = range(backend.partitions)
    return SpanService(backend, open_outlet(environ), partitions, owner, sampling=sampling, environ=environ)


def _whole(environ: Mapping[str, str], name: str, usual: int) -> int:
    text = environ.get(name, "").strip()
    return int(text) if text.isascii() and text.isdigit() and int(text) else usual
