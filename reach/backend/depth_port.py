"""The part of the Backend protocol that says how much lies where: for metrics, and for people. See `reach.backend.port`."""

from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec

StreamKind = Literal["control", "receipts", "again", "ingress", "inbox"]

#: A worker that lives asks at least once in so long.
SEEN_MS = 10_000


class Depth(msgspec.Struct, frozen=True):
    """How much lies in one kind of stream, over all partitions and lanes. `agent`: whose inbox; "" elsewhere."""

    stream: StreamKind
    agent: str = ""
    waiting: int = 0  # nobody has taken it
    taken: int = 0  # somebody has, and has not finished it
    oldest_at_ms: int = 0  # when the oldest of both came; 0 = none lies there

    def with_more(self, waiting: int, taken: int, oldest_at_ms: int) -> "Depth":
        """The sum of it and of one more stream."""
        moments = [at_ms for at_ms in (self.oldest_at_ms, oldest_at_ms) if at_ms]
        return Depth(self.stream, self.agent, self.waiting + waiting, self.taken + taken, min(moments, default=0))


class Depths(msgspec.Struct, frozen=True):
    """All of it, at about one moment. `behind`: batches of `events` that the followers have not finished; 0 without any of them."""

    now_ms: int
    streams: tuple[Depth, ...]
    dead: int = 0
    behind: int = 0
    behind_since_ms: int = 0
    workers: frozenset[str] = frozenset()  # routers seen within the last 10 s
    followers: frozenset[str] = frozenset()  # readers of `events`, the same


class DepthPort(Protocol):
    """One look, which changes nothing."""

    async def depths(self, agents: Sequence[str], follower: str) -> Depths:
        """What lies in the doors, in control, in the inboxes of these agents and in `events` for the group `follower`. Read only.

        A key that is missing, or of another type, holds nothing. Redis: two round trips for each 1,000 commands, two a stream.
        """
        ...
