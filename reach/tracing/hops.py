"""Hop records: what happened to a message at each point of its way (PROTOCOL, section 11).

Work never waits for its records: `add` puts one into a bounded buffer; the recorder, a service, writes batches of them to `events`.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Literal, Protocol, TypedDict, Unpack

import msgspec

from reach.errors import BackendError
from reach.service import Report
from reach.tracing.propagation import span_id_of, trace_of
from reach.tracing.tally import Tally
from reach.tracing.time_base import TimeBase

Point = Literal[
    "message.received",
    "route.matched",
    "route.sent",
    "agent.received",
    "agent.responding",
    "agent.completed",
    "message.delivered",
    "message.rejected",
    "route.failed",
    "message.retried",
    "message.moved",
    "message.reclaimed",
    "message.expired",
    "message.dead",
    "message.cancelled",
    "capacity.wanted",
    "gap",
]

#: the point whose span a point's span lies under; a point that is missing here, or whose parent is None, lies under the sender's span
PARENTS: Final[dict[str, Point | None]] = {
    "message.received": None,
    "message.rejected": None,
    "message.cancelled": None,
    "agent.received": "route.sent",
    "agent.responding": "agent.received",
    "agent.completed": "agent.received",
    "message.delivered": "agent.completed",
}
DEFAULT_PARENT: Final[Point] = "message.received"
#: points that happen once per message, whatever leg or attempt: their span is named without them
ONCE: Final = frozenset({"message.received", "message.rejected"})

MAX_CANDIDATES = 20
BATCH_RECORDS = 100
FLUSH_MS = 100
MAX_RECORDS = 10_000

_Hop = tuple[int, int, "Point", str, str | None, "Told"]
"""What waits to be written: partition, mark, point, msg_id, traceparent, and what else it says."""

Sink = Callable[[int, bytes], Awaitable[None]]
"""Writes a batch (a JSON array of records) to a partition's events: `backend.record`."""


class Candidate(msgspec.Struct, frozen=True, omit_defaults=True):
    """An agent that was looked at: which filter refused it and why, or how it scored."""

    agent: str
    filter: str = ""
    reason: str = ""
    score: float | None = None


class Looked(Protocol):
    """Whatever says the same of an agent; it becomes a Candidate when it is written."""

    @property
    def agent(self) -> str: ...
    @property
    def filter(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def score(self) -> float | None: ...


class Told(TypedDict, total=False):
    """What a record may say beside where and about what it is.

    leg, attempt: the number of the run, from 1; 0 where no run is meant. candidates: 20 are kept. counts, chosen, strategy, pattern: of a
    choice; via, fallback: that it fell back, and to which pattern; tier: the needed one, and why. duration_us: how long the thing took
    that ends at this point.
    """

    leg: int
    attempt: int
    correlation_id: str
    agent: str
    instance: str
    pattern: str
    strategy: str
    candidates: Sequence[Looked]
    counts: dict[str, int]
    chosen: str
    via: str
    fallback: str
    tier: str
    code: str
    duration_us: int
    schema: str


class HopRecord(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One hop. `at_us` is in the time of Redis; what is empty is not written. A `gap` says in `counts` how many records are missing."""

    at_us: int
    point: Point
    msg_id: str
    leg: int
    attempt: int  # the number of the run, from 1; 0 before the first
    correlation_id: str = ""
    trace_id: str = ""
    span_id: str = ""
    parent_span_id: str = ""
    sampled: bool = True
    agent: str = ""
    instance: str = ""
    node: str = ""
    worker: str = ""
    pattern: str = ""
    strategy: str = ""
    candidates: tuple[Candidate, ...] = ()
    counts: dict[str, int] = {}
    chosen: str = ""
    via: str = ""
    fallback: str = ""
    tier: str = ""
    code: str = ""
    duration_us: int = 0
    schema: str = ""


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
        max_records: int = MAX_RECORDS,
        flush_ms: int = FLUSH_MS,
    ) -> None:
        self.base = base
        self.dropped = 0  # over the whole life
        self.tally = Tally(lambda: base.now_us() / 1e6)
        self._sink = sink
        self._node, self._worker = node, worker
        self._ask_ms = ask_ms
        self._max_records = max_records
        self._flush_ms = flush_ms
        self._buffer: deque[_Hop] = deque()
        self._gap = 0  # dropped since the last record that was kept
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
        self._buffer.append((partition, at, point, msg_id, traceparent, told))
        if len(self._buffer) >= BATCH_RECORDS:
            self._full.set()

    async def run_once(self) -> Report:
        """Wait until 100 records are there or 100 ms are over, and write what there is.

        Raises:
            BackendError: A batch could not be written; it stays in the buffer.
        """
        try:
            async with asyncio.timeout(self._flush_ms / 1000):
                await self._full.wait()
        except TimeoutError:
            pass
        return {"written": await self.flush()}

    async def flush(self) -> int:
        """Write all that is in the buffer now; how many records that was. Cancelled: what was not written stays."""
        async with self._flushing:
            return await self._flush()

    async def _flush(self) -> int:
        if self._ask_ms is not None and self.base.stale():
            await self.base.sync(self._ask_ms)
        written = 0
        left = len(self._buffer)
        while left > 0:
            self._full.clear()
            head = [self._buffer[i] for i in range(min(left, BATCH_RECORDS, len(self._buffer)))]
            partition = head[0][0]
            batch = [self._record(hop) for hop in head if hop[0] == partition]
            await self._sink(partition, self._encode(batch))
            self._take_out(head, partition)
            written += len(batch)
            left -= len(batch)
        if self._gap and not self._buffer:
            self._mark_gap(0)
        return written

    async def close(self, timeout_ms: int = 5_000) -> int:
        """Write everything that is left, within `timeout_ms`; how many records remained unwritten (0 = nothing lost)."""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while self._buffer:
                    await self._try_flush()
        except TimeoutError:
            pass
        return len(self._buffer)

    async def _try_flush(self) -> None:
        try:
            await self.flush()
        except BackendError:
            await asyncio.sleep(self._flush_ms / 1000)

    def _take_out(self, head: list[_Hop], partition: int) -> None:
        for _ in head:
            self._buffer.popleft()
        self._buffer.extendleft(reversed([item for item in head if item[0] != partition]))

    def _mark_gap(self, partition: int) -> None:
        self._buffer.append((partition, self.base.mark(), "gap", "", None, {"counts": {"missing": self._gap}}))
        self._gap = 0

    def _record(self, hop: _Hop) -> HopRecord:
        _, mark, point, msg_id, traceparent, told = hop
        leg, attempt = told.get("leg", 0), told.get("attempt", 0)
        at_us = self.base.at_us(mark)
        if point == "gap":  # it is about no message, so it lies in no trace
            return HopRecord(
                at_us=at_us,
                point=point,
                msg_id="",
                leg=0,
                attempt=0,
                node=self._node,
                worker=self._worker,
                counts=told["counts"],
            )
        if point == "capacity.wanted":  # the same
            return HopRecord(
                at_us=at_us,
                point=point,
                msg_id="",
                leg=0,
                attempt=0,
                sampled=False,
                node=self._node,
                worker=self._worker,
                pattern=told["pattern"],
                counts=told["counts"],
            )
        trace = trace_of(msg_id, traceparent)
        parent = PARENTS.get(point, DEFAULT_PARENT)
        return HopRecord(
            at_us=at_us,
            point=point,
            msg_id=msg_id,
            leg=leg,
            attempt=attempt,
            correlation_id=told.get("correlation_id", ""),
            trace_id=trace.trace_id,
            span_id=_span(msg_id, leg, point, attempt),
            parent_span_id=trace.span_id if parent is None else _span(msg_id, leg, parent, attempt),
            sampled=trace.sampled,
            agent=told.get("agent", ""),
            instance=told.get("instance", ""),
            node=self._node,
            worker=self._worker,
            pattern=told.get("pattern", ""),
            strategy=told.get("strategy", ""),
            candidates=tuple(map(_candidate, told.get("candidates", ())[:MAX_CANDIDATES])),
            counts=told.get("counts", _NO_COUNTS),
            chosen=told.get("chosen", ""),
            via=told.get("via", ""),
            fallback=told.get("fallback", ""),
            tier=told.get("tier", ""),
            code=told.get("code", ""),
            duration_us=told.get("duration_us", 0),
            schema=told.get("schema", ""),
        )


_NO_COUNTS: Final[dict[str, int]] = {}


def _candidate(looked: Looked) -> Candidate:
    return Candidate(looked.agent, looked.filter, looked.reason, looked.score)


def _span(msg_id: str, leg: int, point: Point, attempt: int) -> str:
    return span_id_of(msg_id, 0, point, 0) if point in ONCE else span_id_of(msg_id, leg, point, attempt)
