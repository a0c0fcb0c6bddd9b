"""Reading `events` in groups: each has every batch once, or hears how many it has missed. As `follow.lua`."""

from collections.abc import Iterable, Sequence

from reach.backend.memory_backend.side import Side
from reach.backend.memory_backend.streams import ZERO, Fields, Group, Stream
from reach.backend.steps import Followed


class FollowingSide(Side):
    """What a reader of `events` does; see `reach.backend.port` for what each method promises."""

    async def follow_events(
        self, partition: int, group: str, reader: str, max_batches: int = 100, idle_ms: int = 30_000, after: str = "0"
    ) -> Followed:
        def step() -> Followed:
            stream = self._own_stream(self._keys.events(partition))
            known = stream.group(group)
            of = _made(stream, group) if known is None else known
            missed = _missed(stream, of)
            found = of.own(reader, self._store.now_ms(), max_batches, after)
            missed += _forget(of, found)
            batches = _whole(found)
            if not batches:
                claimed, gone = of.autoclaim(reader, idle_ms, max_batches, self._store.now_ms())
                missed, batches = missed + len(gone), _whole(claimed)
            if not batches:
                batches = _whole(of.read(reader, max_batches, self._store.now_ms()))
            return Followed(missed, tuple(batches))

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


def _missed(stream: Stream, group: Group) -> int:
    """How many entries were trimmed that it had not read; counted once."""
    trimmed = stream.added - len(stream)
    if group.last_delivered > stream.last_id:  # the stream was made anew: nothing in it will ever lie behind that place
        group.last_delivered, group.entries_read = ZERO, trimmed
    missed = max(trimmed - group.entries_read, 0)
    group.entries_read += missed
    return missed


def _forget(group: Group, found: Iterable[tuple[str, Fields | None]]) -> int:
    """Those that were trimmed while somebody held them; how many they were."""
    return sum(group.ack(entry_id) for entry_id, fields in found if fields is None)


def _whole(found: Iterable[tuple[str, Fields | None]]) -> list[tuple[str, bytes]]:
    return [(entry_id, fields.get(b"b", b"")) for entry_id, fields in found if fields is not None]
