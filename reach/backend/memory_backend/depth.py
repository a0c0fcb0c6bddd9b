"""How much lies where, as the Redis backend tells it."""

from collections.abc import Iterable, Sequence

from reach.backend.depth_port import SEEN_MS, Depth, Depths, StreamKind
from reach.backend.keys import GROUP_AGENT, GROUP_REGISTRARS, GROUP_ROUTERS, LANES
from reach.backend.memory_backend.recorders import RecordersSide
from reach.backend.memory_backend.streams import Group, parse_id


class DepthSide(RecordersSide):
    """What lies where; see `reach.backend.depth_port` for what each method promises."""

    async def depths(self, agents: Sequence[str], follower: str) -> Depths:
        def step() -> Depths:
            streams: dict[tuple[str, str], Depth] = {}
            for kind, agent, key, group in self._places(agents):
                known = streams.get((kind, agent)) or Depth(kind, agent)
                streams[kind, agent] = known.with_more(*self._lies(key, group))
            return self._whole_of(tuple(streams.values()), follower)

        return await self._step("depths", step)

    def _places(self, agents: Sequence[str]) -> Iterable[tuple[StreamKind, str, str, str]]:
        keys = self._keys
        yield "control", "", keys.control(), GROUP_REGISTRARS
        for p in range(self.partitions):
            yield "receipts", "", keys.receipts(p), GROUP_ROUTERS
            yield "again", "", keys.again(p), GROUP_ROUTERS
            yield from (("ingress", "", keys.ingress(p, lane), GROUP_ROUTERS) for lane in LANES)
            yield from (("inbox", one, keys.inbox(p, one, lane), GROUP_AGENT) for one in agents for lane in LANES)

    def _lies(self, key: str, group_name: str) -> tuple[int, int, int]:
        """Entries that nobody has taken, those that somebody has, and when the oldest of both came."""
        group = self._peek_group(key, group_name)
        stream = self._store.stream(key) if self._store.type_of(key) == "stream" else None
        if stream is None:
            return 0, 0, 0
        taken = len(group.pending) if group is not None else 0
        oldest = min(group.pending) if group is not None and group.pending else _first(stream.after((0, 0), 1))
        return max(len(stream) - taken, 0), taken, oldest[0]

    def _peek_group(self, key: str, name: str) -> Group | None:
        stream = self._store.stream(key) if self._store.type_of(key) == "stream" else None
        return stream.group(name) if stream is not None else None

    def _whole_of(self, streams: tuple[Depth, ...], follower: str) -> Depths:
        now_ms = self._store.now_ms()
        dead = behind = 0
        workers: set[str] = _seen(self._peek_group(self._keys.control(), GROUP_REGISTRARS), now_ms)
        followers: set[str] = set()
        moments = []
        for p in range(self.partitions):
            letters, events = self._keys.dead(p), self._keys.events(p)
            dead += self._lies(letters, "")[0]
            workers |= _seen(self._peek_group(self._keys.ingress(p, "normal"), GROUP_ROUTERS), now_ms)
            group = self._peek_group(events, follower)
            if group is None:
                continue
            followers |= _seen(group, now_ms)
            unread = group.stream.after(group.last_delivered)
            behind += len(group.pending) + len(unread)
            moments.append(min(group.pending) if group.pending else _first(unread[:1]))
        return Depths(
            now_ms=now_ms,
            streams=streams,
            dead=dead,
            behind=behind,
            behind_since_ms=min((at_ms for at_ms, _ in moments if at_ms), default=0),
            workers=frozenset(workers),
            followers=frozenset(followers),
        )


def _first(entries: Sequence[tuple[str, object]]) -> tuple[int, int]:
    return parse_id(entries[0][0]) if entries else (0, 0)


def _seen(group: Group | None, now_ms: int) -> set[str]:
    if group is None:
        return set()
    return {name for name, seen_at_ms in group.consumers.items() if now_ms - seen_at_ms < SEEN_MS}
