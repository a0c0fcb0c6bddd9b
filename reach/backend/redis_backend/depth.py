"""How much lies where: lengths and pending entries. No body is read but of the oldest entry of a stream that nobody has taken from."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from reach import ids
from reach.backend.connection import Reply
from reach.backend.depth_port import SEEN_MS, Depth, Depths, StreamKind
from reach.backend.keys import GROUP_AGENT, GROUP_REGISTRARS, GROUP_ROUTERS, LANES
from reach.backend.redis_backend.recorders import RecordersSide
from reach.backend.redis_backend.streams import entries_of, pairs_of, text_of
from reach.errors import BackendError, BackendUnavailable

PAGE = 1_000


class _Place(NamedTuple):
    stream: StreamKind
    agent: str
    key: str
    group: str


class DepthSide(RecordersSide):
    """What lies where; see `reach.backend.depth_port` for what each method promises."""

    async def depths(self, agents: Sequence[str], follower: str) -> Depths:
        places = self._places(agents)
        asked = [command for place in places for command in _of(place)]
        answers = await self._ask(asked)
        found = [(answers[2 * at], answers[2 * at + 1]) for at in range(len(places))]
        oldest = await self._oldest(places, found)
        streams: dict[tuple[str, str], Depth] = {}
        for place, (length, pending), at_ms in zip(places, found, oldest, strict=True):
            taken = _taken(pending)
            known = streams.get(place[:2]) or Depth(place.stream, place.agent)
            waiting = max((length if isinstance(length, int) else 0) - taken, 0)
            streams[place[:2]] = known.with_more(waiting, taken, at_ms)
        return await self._whole_of(tuple(streams.values()), follower)

    def _places(self, agents: Sequence[str]) -> list[_Place]:
        keys = self._keys
        places = [_Place("control", "", keys.control(), GROUP_REGISTRARS)]
        for p in range(self.partitions):
            places += [
                _Place("receipts", "", keys.receipts(p), GROUP_ROUTERS),
                _Place("again", "", keys.again(p), GROUP_ROUTERS),
                *(_Place("ingress", "", keys.ingress(p, lane), GROUP_ROUTERS) for lane in LANES),
                *(_Place("inbox", one, keys.inbox(p, one, lane), GROUP_AGENT) for one in agents for lane in LANES),
            ]
        return places

    async def _ask(self, commands: Sequence[Sequence[Any]]) -> list[Reply]:
        """Errors about a key are None: nothing lies there."""
        replies: list[Reply] = []
        for start in range(0, len(commands), PAGE):
            for reply in await self._link.batch(commands[start : start + PAGE]):
                if isinstance(reply, BackendUnavailable):
                    raise reply
                replies.append(None if isinstance(reply, BackendError) else reply)
        return replies

    async def _oldest(self, places: Sequence[_Place], found: Sequence[tuple[Reply, Reply]]) -> list[int]:
        """Entries are taken in order and deleted when they are finished: the first that is pending is older than all others."""
        moments = [_first_pending_ms(pending) for _, pending in found]
        unread = [at for at, (length, _) in enumerate(found) if length and not moments[at]]
        firsts = await self._ask([("XRANGE", places[at].key, "-", "+", "COUNT", 1) for at in unread])
        for at, first in zip(unread, firsts, strict=True):
            entries = entries_of(first)
            moments[at] = ids.stream_id(entries[0].id)[0] if entries else 0
        return moments

    async def _whole_of(self, streams: tuple[Depth, ...], follower: str) -> Depths:
        keys, there = self._keys, range(self.partitions)
        # Redis before 7.2 notes when a reader was given something, not when it asked: a router at quiet doors is seen at `control`, where
        # it claims what others have left lying.
        asked: list[Sequence[Any]] = [("TIME",), ("XINFO", "CONSUMERS", keys.control(), GROUP_REGISTRARS)]
        for p in there:
            asked += [
                ("XLEN", keys.dead(p)),
                ("XINFO", "CONSUMERS", keys.ingress(p, "normal"), GROUP_ROUTERS),
                ("XINFO", "GROUPS", keys.events(p)),
                ("XINFO", "CONSUMERS", keys.events(p), follower),
                ("XPENDING", keys.events(p), follower),
            ]
        (seconds, micros), registrars, *rest = await self._ask(asked)
        dead = behind = 0
        workers: set[str] = _seen(registrars)
        followers: set[str] = set()
        moments = []
        for p in there:
            letters, routers, groups, readers, pending = rest[5 * p : 5 * p + 5]
            dead += letters or 0
            workers |= _seen(routers)
            followers |= _seen(readers)
            group = next((one for one in _rows(groups) if text_of(one[b"name"]) == follower), None)
            if group is None:
                continue
            count, since_ms = await self._behind(p, group, pending)
            behind += count
            moments.append(since_ms)
        return Depths(
            now_ms=int(seconds) * 1000 + int(micros) // 1000,
            streams=streams,
            dead=dead,
            behind=behind,
            behind_since_ms=min((at_ms for at_ms in moments if at_ms), default=0),
            workers=frozenset(workers),
            followers=frozenset(followers),
        )

    async def _behind(self, partition: int, group: dict[bytes, Any], pending: Reply) -> tuple[int, int]:
        """How many batches a group has before it, taken ones included, and since when the oldest of them."""
        key, after = self._keys.events(partition), text_of(group[b"last-delivered-id"])
        taken, lag = _taken(pending), group.get(b"lag")
        first, length = await self._ask([("XRANGE", key, f"({after}", "+", "COUNT", 1), ("XLEN", key)])
        entries = entries_of(first)
        unread = lag if isinstance(lag, int) else (length or 0) if entries else 0  # nil: a batch was deleted by hand
        since_ms = _first_pending_ms(pending) or (ids.stream_id(entries[0].id)[0] if entries else 0)
        return taken + unread, since_ms


def _of(place: _Place) -> tuple[Sequence[Any], Sequence[Any]]:
    return ("XLEN", place.key), ("XPENDING", place.key, place.group)


def _taken(pending: Reply) -> int:
    return int(pending[0]) if pending else 0


def _first_pending_ms(pending: Reply) -> int:
    return ids.stream_id(pending[1])[0] if pending and pending[0] else 0


def _rows(reply: Reply) -> list[dict[bytes, Any]]:
    return [pairs_of(row) for row in reply or ()]


def _seen(consumers: Reply) -> set[str]:
    return {text_of(row[b"name"]) for row in _rows(consumers) if row[b"idle"] < SEEN_MS}
