"""Sharded Pub/Sub, as far as reach uses it: who listens to a channel hears what is said from then on. Guarded by the store's lock."""

from collections import deque
from collections.abc import Iterable

MAX_HEARD = 1_000


class Ear:
    """One listener: what it has heard and not taken yet, at most 1,000; more is lost, as on a server that drops who reads too slowly."""

    __slots__ = ("_heard",)

    def __init__(self) -> None:
        self._heard: deque[tuple[str, bytes]] = deque(maxlen=MAX_HEARD)

    def hear(self, channel: str, data: bytes) -> None:
        """Keep it."""
        self._heard.append((channel, data))

    def taken(self) -> list[tuple[str, bytes]]:
        """All of it, once."""
        heard = list(self._heard)
        self._heard.clear()
        return heard


class Channels:
    """Who listens to what."""

    __slots__ = ("_ears",)

    def __init__(self) -> None:
        self._ears: dict[str, set[Ear]] = {}

    def open(self, ear: Ear, channels: Iterable[str]) -> None:
        """Listen. Twice is once."""
        for channel in channels:
            self._ears.setdefault(channel, set()).add(ear)

    def close(self, ear: Ear) -> None:
        """Listen to nothing any more."""
        for channel, ears in list(self._ears.items()):
            ears.discard(ear)
            if not ears:
                del self._ears[channel]

    def say(self, channel: str, data: bytes) -> None:
        """Let those hear it who listen now."""
        for ear in self._ears.get(channel, ()):
            ear.hear(channel, data)
