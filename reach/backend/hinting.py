"""A hint: somebody has ended what an agent may be at work on. It proves nothing and may be lost: whoever hears it asks the ledger."""

from typing import NamedTuple

from reach.backend.keys import LANES

MAX_BYTES = 128


class Hint(NamedTuple):
    """An entry of an inbox that its holder should ask about."""

    partition: int
    lane: str
    hand: str


def written(lane: str, hand: str) -> bytes:
    """What travels: `<lane>:<hand>`."""
    return f"{lane}:{hand}".encode()


def read_hint(partition: int, data: bytes) -> Hint | None:
    """What somebody has said; None: no hint. Anybody may have said it."""
    lane, colon, hand = data[:MAX_BYTES].decode("ascii", "replace").partition(":")
    return Hint(partition, lane, hand) if colon and lane in LANES else None
