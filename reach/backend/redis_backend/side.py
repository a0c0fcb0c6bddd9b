"""What every side of the Redis backend holds."""

from reach.backend.bounds import FIELDS, Bounds, bounds_of
from reach.backend.connection import Link, Reply
from reach.backend.keys import KeySpace
from reach.backend.redis_backend.eviction import Eviction
from reach.backend.redis_backend.streams import Streams

REFRESH_MS = 60_000


class Side:
    """The connections, the names of the keys, and the streams of one env."""

    def __init__(self, link: Link, keys: KeySpace) -> None:
        self._link = link
        self._keys = keys
        self._streams = Streams(link)
        self._bounds = Bounds()
        self._eviction = Eviction()
        self._bounds_at_ms = 0
        self.partitions = 1

    async def _refresh_bounds(self) -> None:
        """Read them again where that was over a minute ago: for who only sends, and is not told of changes."""
        now_ms = self._link.clock.monotonic_ms()
        if now_ms - self._bounds_at_ms < REFRESH_MS:
            return
        (reply,) = await self._link.batch([self._ask_bounds()])
        self._take_bounds(reply)

    def _ask_bounds(self) -> list[str]:
        """The command whose reply `_take_bounds` reads."""
        return ["HMGET", self._keys.meta(), *FIELDS]

    def _take_bounds(self, reply: Reply) -> None:
        """An error (the key holds something else, or may not be read) leaves them as they are."""
        self._bounds_at_ms = self._link.clock.monotonic_ms()
        if isinstance(reply, list):
            self._bounds = bounds_of(dict(zip(FIELDS, reply, strict=True)))
