"""Reads hop records where Redis keeps them: beside whoever else reads them, and without holding up anybody."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Protocol

import msgspec

from reach.backend.steps import Record, Snapshot
from reach.events.store import Event, events_of, record_of

PAGE = 100
MAX_BATCHES = 100_000  # of one partition; more are never kept
POLL_S = 0.2
#: A record may say a moment that lies so much behind that of its entry: two clocks were compared.
EARLY_MS = 1_000

Batches = list[tuple[str, bytes]]


class Recorded(Protocol):
    """The part of a backend that this needs."""

    partitions: int

    @property
    def env(self) -> str: ...

    async def now_ms(self) -> int: ...

    async def snapshot(self) -> Snapshot: ...

    async def inspect(self, partition: int, msg_id: str, leg: int = -1, *, envelope: bool = False) -> Record | None: ...

    async def read_events(self, partition: int, cursor: str, block_ms: int, max_entries: int = 100) -> Batches: ...


async def batches_since(source: Recorded, since_us: int = 0) -> AsyncIterator[tuple[int, bytes]]:
    """All that is kept and may hold records since then: partition, batch; those of one partition in order.

    Raises:
        BackendError: They cannot be read.
    """
    for partition in range(source.partitions):
        cursor = _cursor(since_us)
        for _ in range(MAX_BATCHES // PAGE):
            page = await source.read_events(partition, cursor, 1, PAGE)
            for _, batch in page:
                yield partition, batch
            if len(page) < PAGE:  # what is written meanwhile is for whoever follows
                break
            cursor = page[-1][0]


async def batches_from(source: Recorded, since_us: int) -> AsyncIterator[list[tuple[int, bytes]]]:
    """As they come, for ever: each time those that have come since, which may be none.

    Raises:
        BackendError: They cannot be read now; whoever wants to go on begins anew.
    """
    cursors = dict.fromkeys(range(source.partitions), _cursor(since_us))
    while True:
        found: list[tuple[int, bytes]] = []
        for partition, cursor in cursors.items():
            page = await source.read_events(partition, cursor, 1, PAGE)
            if page:
                cursors[partition] = page[-1][0]
            found += [(partition, batch) for _, batch in page]
        yield found
        if not found:
            await asyncio.sleep(POLL_S)


Unread = Callable[[int | None, str], None]
"""Hears of what is no record: its number in the batch, None = the whole batch is none; and why."""


def events_in(partition: int, batch: bytes, unread: Unread | None = None) -> Iterator[Event]:
    """The records of a batch. What is none was written by nobody who knows what a record is, and is left out; `unread` hears of it."""
    try:
        events = events_of(partition, batch)
    except ValueError as error:
        if unread is not None:
            unread(None, str(error)[:200])
        return
    for number, event in enumerate(events):
        if event is not None:
            yield event
        elif unread is not None:
            unread(number, "it is no object")


def records_in(partition: int, batch: bytes) -> list[dict[str, Any]]:
    """The records of a batch as they stand there, all at once where they can be read so; what is none is left out."""
    try:
        read = msgspec.json.decode(batch, type=list[Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):  # one that cannot be read hides no other
        return [record_of(event.body) for event in events_in(partition, batch)]
    return [record for record in read if isinstance(record, dict)]


def _cursor(since_us: int) -> str:
    return f"{max(since_us // 1000 - EARLY_MS, 0)}-0"
