"""What is kept to be read later: hop records and dead letters."""

from reach.backend.redis_backend.side import Side
from reach.backend.redis_backend.streams import LOST, code_of, entries_of
from reach.backend.scripts import script
from reach.errors import BackendError

MAX_EVENTS = 20_000
EVENTS_AGE_MS = 24 * 3_600_000
TRIM_EVERY_MS = 60_000


class RecordsSide(Side):
    """Events and dead letters; see `reach.backend.port` for what each method promises."""

    _trimmed_at_ms = 0

    async def record(self, partition: int, batch: bytes) -> None:
        key = self._keys.events(partition)
        command = ("XADD", key, "MAXLEN", "~", MAX_EVENTS, "*", "b", batch, "v", "1")
        try:
            entry_id = await self._link.call(*command)
        except BackendError as error:
            if code_of(error) not in LOST:
                raise
            await self._link.run(script("heal_key"), key, "stream", "")
            entry_id = await self._link.call(*command)
        # The age is judged by the clock of Redis, which made the id.
        now_ms = int(entry_id.split(b"-")[0])
        if abs(now_ms - self._trimmed_at_ms) >= TRIM_EVERY_MS:
            self._trimmed_at_ms = now_ms
            oldest = max(now_ms - EVENTS_AGE_MS, 0)
            keys = [self._keys.events(p) for p in range(self.partitions)] + [
                self._keys.dead(p) for p in range(self.partitions)
            ]
            await self._link.batch([["XTRIM", each, "MINID", "~", oldest] for each in keys])

    async def read_events(
        self, partition: int, cursor: str, block_ms: int, max_entries: int = 100
    ) -> list[tuple[str, bytes]]:
        read = await self._streams.read({self._keys.events(partition): cursor}, max_entries, block_ms)
        return [(entry.id, (entry.fields or {}).get(b"b", b"[]")) for _, entries in read for entry in entries]

    async def dead_letters(
        self, partition: int, after: str = "-", max_entries: int = 100
    ) -> list[tuple[str, dict[bytes, bytes]]]:
        key = self._keys.dead(partition)
        start = "-" if after == "-" else f"({after}"
        try:
            reply = await self._link.call("XRANGE", key, start, "+", "COUNT", max_entries)
        except BackendError as error:
            if code_of(error) not in LOST:
                raise
            await self._link.run(script("heal_key"), key, "stream", "")
            return []
        return [(entry.id, entry.fields or {}) for entry in entries_of(reply)]
