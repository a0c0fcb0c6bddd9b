"""What is kept to be read later: hop records and dead letters."""

from collections.abc import Sequence

from reach.backend.followed import Followed, Trimmed
from reach.backend.redis_backend.eviction import QUESTION
from reach.backend.redis_backend.side import Side
from reach.backend.redis_backend.streams import LOST, code_of, entries_of, facts_of, lost, text_of
from reach.backend.scripts import script
from reach.errors import BackendError

TRIM_EVERY_MS = 60_000
MAX_DROPPED = 1_000  # ids of one XDEL


class RecordsSide(Side):
    """Events and dead letters; see `reach.backend.port` for what each method promises."""

    _trimmed_at_ms = 0

    async def record(self, partition: int, batch: bytes) -> None:
        key = self._keys.events(partition)
        command = ("XADD", key, "MAXLEN", self._bounds.max_events, "*", "b", batch, "v", "1")
        added, time = await self._link.batch([command, ["TIME"]])
        if isinstance(added, BackendError):
            if not lost(added):
                raise added
            await self._link.run(script("heal_key"), key, "stream", "")
            await self._link.call(*command)
        # The age is judged by the clock of Redis, and not by the id: somebody may have put one of the far future there.
        now_ms = int(time[0]) * 1000 + int(time[1]) // 1000
        if abs(now_ms - self._trimmed_at_ms) >= TRIM_EVERY_MS:
            self._trimmed_at_ms = now_ms
            await self._trim(now_ms)

    async def _trim(self, now_ms: int) -> None:
        """By age, and by length where nothing new would do it, as `meta` says now. A key of another type is not healed here."""
        asked, info = await self._link.batch([self._ask_bounds(), QUESTION])
        self._take_bounds(asked)
        if isinstance(info, bytes):  # else the user may not ask
            self._eviction.judge(facts_of(info))
        bounds = self._bounds
        kept = (
            (self._keys.events, bounds.max_events, bounds.events_age_ms),
            (self._keys.dead, bounds.max_dead, bounds.dead_age_ms),
        )
        commands: list[list[str | int]] = []
        for key_of, most, age_ms in kept:
            for partition in range(self.partitions):
                commands.append(["XTRIM", key_of(partition), "MINID", max(now_ms - age_ms, 0)])
                commands.append(["XTRIM", key_of(partition), "MAXLEN", most])
        await self._link.batch(commands)

    async def read_events(
        self, partition: int, cursor: str, block_ms: int, max_entries: int = 100
    ) -> list[tuple[str, bytes]]:
        key = self._keys.events(partition)
        read = await self._streams.read({key: cursor}, max_entries, block_ms)
        if not read and await self._streams.ends_before(key, cursor):
            read = await self._streams.read({key: "0-0"}, max_entries)
        return [(entry.id, (entry.fields or {}).get(b"b", b"[]")) for _, entries in read for entry in entries]

    async def follow_events(
        self,
        partition: int,
        group: str,
        reader: str,
        max_batches: int = 100,
        idle_ms: int = 30_000,
        after: str = "0",
        noted: Trimmed | None = None,
    ) -> Followed:
        place = (noted.after, noted.had, noted.trimmed) if noted is not None else ()
        reply = await self._link.run(
            script("follow"), self._keys.events(partition), group, reader, max_batches, idle_ms, after, *place
        )
        (had, trimmed, place_id, first), gone, *batches = reply
        return Followed(
            tuple((text_of(entry_id), batch) for entry_id, batch in batches),
            Trimmed(had, trimmed, text_of(place_id), text_of(first)) if trimmed > had else None,
            tuple(map(text_of, gone)),
        )

    async def finish_events(self, partition: int, group: str, entry_ids: Sequence[str]) -> None:
        if entry_ids:
            await self._link.call("XACK", self._keys.events(partition), group, *entry_ids)

    async def unfollow_events(self, partition: int, group: str, reader: str) -> None:
        await self._link.run(script("sweep"), self._keys.events(partition), group, reader, 0)

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

    async def drop_dead(self, partition: int, entry_ids: Sequence[str]) -> int:
        key = self._keys.dead(partition)
        dropped = 0
        for start in range(0, len(entry_ids), MAX_DROPPED):
            try:
                dropped += await self._link.call("XDEL", key, *entry_ids[start : start + MAX_DROPPED])
            except BackendError as error:
                if code_of(error) not in LOST:
                    raise
        return dropped
