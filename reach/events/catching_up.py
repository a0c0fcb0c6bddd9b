"""Reads the records of the last minute where Redis keeps them, each once, and notices what was trimmed before it could be read."""

from typing import Final

from reach import ids
from reach.backend.bounds import bounds_of
from reach.events.pace import WINDOW_US, Window
from reach.events.reading import EARLY_MS, MAX_BATCHES, PAGE, Batches, Recorded, events_in
from reach.events.store import record_of

_FIRST: Final = "0-0"
_LAST_NUMBER: Final = 2**64 - 1


class CatchingUp:
    """Keeps a window up to date. Of one env, for one event loop."""

    def __init__(self, source: Recorded, window: Window) -> None:
        self._source, self._window = source, window
        self._seen: dict[int, str] = {}  # the newest entry that was read, by partition

    async def run(self) -> None:
        """Read what has come since the last time; at first what there is of the last minute.

        Raises:
            BackendError: It cannot be read now.
        """
        start_ms = max(await self._source.now_ms() - WINDOW_US // 1000 - EARLY_MS, 0)
        for partition in range(self._source.partitions):
            if partition in self._seen:
                await self._read(partition, "")
            else:
                await self._begin(partition, start_ms)

    async def _begin(self, partition: int, start_ms: int) -> None:
        """Where the oldest entry is one of the last minute, and there are as many as are kept, some before it were trimmed."""
        oldest = await self._source.read_events(partition, _FIRST, 0, 1)
        if not oldest or _ms(oldest[0]) < start_ms:
            await self._read(partition, f"{start_ms}-0")
            return
        meta = (await self._source.snapshot()).meta
        most = bounds_of({name: value.encode() for name, value in meta.items()}).max_events
        if await self._read(partition, _FIRST) >= most:
            self._window.missed(partition, _ms(oldest[0]) * 1000)

    async def _read(self, partition: int, cursor: str) -> int:
        """Read what lies behind `cursor`, which "" is the entry that was read last. How many batches there were.

        That entry is read once more: where it is gone, others after it may be.
        """
        count = 0
        while count < MAX_BATCHES:
            seen = self._seen.get(partition, "")
            page = await self._source.read_events(partition, _just_before(seen) if seen else cursor, 0, PAGE)
            is_whole = not seen or (bool(page) and page[0][0] == seen)
            fresh = page[1:] if seen and is_whole else page
            if not fresh:
                break
            if not is_whole:
                self._window.missed(partition, _ms(fresh[0]) * 1000)
            self._take(partition, fresh)
            self._seen[partition] = fresh[-1][0]
            count += len(fresh)
        return count

    def _take(self, partition: int, fresh: Batches) -> None:
        events = (event for _, batch in fresh for event in events_in(partition, batch))
        self._window.take((record_of(event.body) for event in events), partition)


def _ms(entry: tuple[str, bytes]) -> int:
    return ids.stream_id(entry[0])[0]


def _just_before(entry_id: str) -> str:
    ms, number = ids.stream_id(entry_id)
    return f"{ms}-{number - 1}" if number else f"{max(ms - 1, 0)}-{_LAST_NUMBER}"
