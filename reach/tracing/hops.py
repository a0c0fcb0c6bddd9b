"""Hop records: what happened to a message at each point of its way (PROTOCOL, section 11).

Work never waits for its records: `add` puts one into a bounded buffer; the recorder, a service, writes batches of them to `events`.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NamedTuple, Unpack

import msgspec

from reach.errors import BackendError, BackendUnavailable
from reach.log import hushed
from reach.service import Report
from reach.tracing.contents import Contents
from reach.tracing.presence import Presence, Tell
from reach.tracing.record import DROPPED, HopRecord, Point, Told, record_of, size_of, without_contents
from reach.tracing.tally import Tally
from reach.tracing.time_base import TimeBase

BATCH_RECORDS = 100
#: A batch ends with the record that makes it so long: Redis keeps so many batches, whatever is in them.
BATCH_BYTES = 131_072
FLUSH_MS = 100
MAX_RECORDS = 10_000
#: So much of envelopes and receipts may wait to be written; beyond it records go without them.
MAX_HELD_BYTES = 16 << 20

_Hop = tuple[int, int, Point, str, str | None, Told, int]
"""What waits to be written: partition, mark, point, msg_id, traceparent, what else it says, and its number in this process."""


class _Batch(NamedTuple):
    """What is written at once: the first records of the buffer that are of one partition, of so many that were looked at."""

    partition: int
    looked_at: int
    records: int
    data: bytes
    rules: object  # by which contents were judged


Sink = Callable[[int, bytes], Awaitable[None]]
"""Writes a batch (a JSON array of records) to a partition's events: `backend.record`."""


class HopRecorder:
    """The buffer between work and `events`, and the service that empties it every 100 ms or 100 records.

    A batch that could not be written stays and is tried again; when the buffer is full the newest records are dropped and a `gap`
    stands in their place. For one event loop.
    """

    name = "hops"
    interval_ms = 0

    def __init__(
        self,
        sink: Sink,
        base: TimeBase,
        *,
        node: str = "",
        worker: str = "",
        ask_ms: Callable[[], Awaitable[int]] | None = None,
        contents: Contents | None = None,
        tell: Tell | None = None,
        max_records: int = MAX_RECORDS,
        flush_ms: int = FLUSH_MS,
    ) -> None:
        """`contents`: what is kept of envelopes and receipts; without it they are dropped. `tell`: hears up to when all is written."""
        self.base = base
        self.contents = contents
        self.dropped = 0  # over the whole life
        self.tally = Tally(lambda: base.now_us() / 1e6)
        self._sink = sink
        self._node, self._worker = node, worker
        self._ask_ms = ask_ms
        self._presence = Presence(tell, node, worker) if tell is not None else None
        self._max_records = max_records
        self._flush_ms = flush_ms
        self._buffer: deque[_Hop] = deque()
        self._held_bytes = 0  # of envelopes and receipts that wait
        self._number = 0
        self._gap = 0  # dropped since the last record that was kept
        self._unsure: _Batch | None = None  # it may have been written: nobody has said so
        self._full = asyncio.Event()
        self._flushing = asyncio.Lock()
        self._encode = msgspec.json.Encoder().encode

    def __len__(self) -> int:
        """How many records wait to be written."""
        return len(self._buffer)

    def add(
        self,
        partition: int,
        point: Point,
        msg_id: str,
        *,
        traceparent: str | None = None,
        mark: int | None = None,
        **told: Unpack[Told],
    ) -> None:
        """Record that `point` was reached, now or at `mark`. Never blocks, never raises for want of room.

        Nothing is made of it here: work waits for this call, and for nothing that follows from it.

        Args:
            partition: Whose events it goes to.
            point: Where the message is.
            msg_id: Which message.
            traceparent: As the envelope carries it; malformed or absent gives the message a trace of its own.
            mark: The moment, as `base.mark` gave it.
            told: See `Told`.
        """
        self.tally.hop(point, msg_id, traceparent, told)
        if len(self._buffer) >= self._max_records:
            self._gap += 1
            self.dropped += 1
            return
        if self._gap:
            self._mark_gap(partition)
        at = self.base.mark() if mark is None else mark
        if "envelope" in told or "receipt" in told:
            told = self._hold(told)
        self._number += 1
        self._buffer.append((partition, at, point, msg_id, traceparent, told, self._number))
        if len(self._buffer) >= BATCH_RECORDS:
            self._full.set()

    async def run_once(self) -> Report:
        """Wait until 100 records are there or 100 ms are over, and write what there is.

        Raises:
            BackendError: A batch could not be written; it stays in the buffer.
        """
        if self._presence is not None and not self._presence.told:
            await self.flush()  # at once, so that it is missed if it dies
        try:
            async with asyncio.timeout(self._flush_ms / 1000):
                await self._full.wait()
        except TimeoutError:
            pass
        return {"written": await self.flush()}

    async def flush(self) -> int:
        """Write all that is in the buffer now; how many records that was. Cancelled: what was not written stays.

        A batch of which nobody has said whether it was written comes again byte for byte, so that it can be known as the same.
        """
        async with self._flushing:
            return await self._flush()

    async def _flush(self) -> int:
        if self._ask_ms is not None and self.base.stale():
            await self.base.sync(self._ask_ms)
        if self._held_bytes and self.contents is not None:
            await self.contents.refresh(self.base.mark() // 1000)
        began = self.base.mark()
        written = 0
        left = len(self._buffer)
        while left > 0:
            self._full.clear()
            batch = self._unsure
            if (
                batch is None or batch.rules is not self._rules
            ):  # what may not be kept any more is worse than twice the same
                batch = self._batch(min(left, BATCH_RECORDS, len(self._buffer)))
            self._unsure = batch
            try:
                await self._sink(batch.partition, batch.data)
            except BackendUnavailable:
                raise
            except BackendError:  # an answer: it was not written
                self._unsure = None
                raise
            self._unsure = None
            self._take_out(batch)
            written += batch.records
            left -= batch.records
        if self._gap and not self._buffer:
            self._mark_gap(0)
        elif self._presence is not None:
            await self._presence.written(began, self.base.at_us(began))
        return written

    async def close(self, timeout_ms: int = 5_000) -> int:
        """Write everything that is left, within `timeout_ms`; how many records remained unwritten (0 = nothing lost).

        Only who has lost nothing takes its leave: of the others somebody will say that records may be missing.
        """
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while self._buffer:
                    await self._try_flush()
                if self._presence is not None:
                    async with self._flushing:
                        await self._presence.leave()
        except TimeoutError:
            pass
        return len(self._buffer)

    async def _try_flush(self) -> None:
        try:
            await self.flush()
        except BackendError:
            await asyncio.sleep(self._flush_ms / 1000)

    async def tellable(self, error: BaseException, schema: str | None) -> BaseException:
        """What of an error of a user's may be logged, by the rules of now: itself, or its type and its places without any text.

        `schema`: of what it may tell of; None: nobody can say.
        """
        if self.contents is None:
            return hushed(error)
        with suppress(BackendError):  # then what was known last holds
            await self.contents.refresh(self.base.mark() // 1000)
        return error if self.contents.keeps(schema) else hushed(error)

    @property
    def _rules(self) -> object:
        return self.contents.rules if self.contents is not None else None

    def _batch(self, looked_at: int) -> _Batch:
        """The first of so many records of the buffer, as JSON, as far as one batch goes."""
        partition = self._buffer[0][0]
        batch: list[bytes] = []
        size = 0
        for number in range(looked_at):
            hop = self._buffer[number]
            if size >= BATCH_BYTES:
                break
            if hop[0] == partition:
                batch.append(self._encode(self._record(hop)))
                size += len(batch[-1])
        return _Batch(partition, looked_at, len(batch), b"[%s]" % b",".join(batch), self._rules)

    def _record(self, hop: _Hop) -> HopRecord:
        _, mark, point, msg_id, traceparent, told, number = hop
        at_us = told.get("at_us") or self.base.at_us(mark)
        return record_of(
            point,
            msg_id,
            traceparent,
            told,
            at_us=at_us,
            node=self._node,
            worker=self._worker,
            contents=self.contents,
            nonce=f"{mark}|{number}",
        )

    def _take_out(self, batch: _Batch) -> None:
        kept, written = [], batch.records
        for _ in range(batch.looked_at):
            hop = self._buffer.popleft()
            if hop[0] == batch.partition and written:
                written -= 1
                self._held_bytes -= size_of(hop[5])
            else:
                kept.append(hop)
        self._buffer.extendleft(reversed(kept))

    def _hold(self, told: Told) -> Told:
        """Keep its envelope or receipt until it is written, if there is room."""
        size = size_of(told)
        if self._held_bytes + size > MAX_HELD_BYTES:
            return without_contents(told)
        self._held_bytes += size
        return told

    def _mark_gap(self, partition: int) -> None:
        self._buffer.append((partition, self.base.mark(), "gap", "", None, {"counts": {DROPPED: self._gap}}, 0))
        self._gap = 0
