"""Reading `events` in groups: each has every batch once, or hears how many it has missed. As `follow.lua`."""

from collections.abc import Iterable, Sequence

from reach.backend.followed import Followed, Trimmed
from reach.backend.memory_backend.side import Side
from reach.backend.memory_backend.streams import ZERO, Fields, Group, Stream, format_id


class FollowingSide(Side):
    """What a reader of `events` does; see `reach.backend.port` for what each method promises."""

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
        def step() -> Followed:
            stream = self._own_stream(self._keys.events(partition))
            known = stream.group(group)
            of = _made(stream, group) if known is None else known
            trimmed = _trimmed(stream, of, noted)
            now_ms = self._store.now_ms()
            found = of.own(reader, now_ms, max_batches, after)
            if not found:
                found = of.left(reader, idle_ms, max_batches, now_ms)
            if trimmed is None and not _whole(found):
                found = [*found, *of.read(reader, max_batches, now_ms)]
            gone = tuple(entry_id for entry_id, fields in found if fields is None)
            return Followed(tuple(_whole(found)), trimmed, gone)

        return await self._step("follow_events", step)

    async def finish_events(self, partition: int, group: str, entry_ids: Sequence[str]) -> None:
        def step() -> None:
            of = self._follower(partition, group)
            if of is not None:
                for entry_id in entry_ids:
                    of.ack(entry_id)

        await self._step("finish_events", step)

    async def unfollow_events(self, partition: int, group: str, reader: str) -> None:
        def step() -> None:
            of = self._follower(partition, group)
            if of is not None:
                of.sweep(reader, 0, self._store.now_ms())

        await self._step("unfollow_events", step)

    def _follower(self, partition: int, group: str) -> Group | None:
        key = self._keys.events(partition)
        return self._own_stream(key).group(group) if self._store.type_of(key) == "stream" else None


def _made(stream: Stream, name: str) -> Group:
    """A group that begins with the oldest batch that there is, and misses none of those that went before."""
    made = stream.make_group(name)
    made.entries_read = stream.added - len(stream)
    return made


def _trimmed(stream: Stream, group: Group, noted: Trimmed | None) -> Trimmed | None:
    """What was trimmed that it had not read, and that nobody has noted yet."""
    trimmed = stream.added - len(stream)
    if group.last_delivered > stream.last_id:  # the stream was made anew: nothing in it will ever lie behind that place
        group.last_delivered, group.entries_read = ZERO, trimmed
    at = format_id(group.last_delivered)
    if noted is not None and (noted.after, noted.had) == (at, group.entries_read) and noted.trimmed <= trimmed:
        group.entries_read = max(group.entries_read, noted.trimmed)
    if group.entries_read >= trimmed:
        return None
    first = next((entry_id for entry_id, _ in stream.all()), format_id(stream.last_id))
    return Trimmed(group.entries_read, trimmed, at, first)


def _whole(found: Iterable[tuple[str, Fields | None]]) -> list[tuple[str, bytes]]:
    return [(entry_id, fields.get(b"b", b"")) for entry_id, fields in found if fields is not None]
