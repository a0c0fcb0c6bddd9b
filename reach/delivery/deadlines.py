"""The moments of a message and the lengths that follow from them (PROTOCOL, sections 5 and 7). The scripts count in the same way."""

import msgspec

from reach import ids

#: An ingress entry whose id is so far ahead of the clock was forged, or written before the clock stepped back.
MAX_AHEAD_MS = 60_000
MIN_WINDOW_MS, MAX_WINDOW_MS = 60_000, 600_000
#: A tombstone outlives the caller's total, and never less than this.
MIN_TOMB_MS = 60_000


class Moments(msgspec.Struct, frozen=True):
    """When what must have happened; Unix ms by the clock of the backend.

    Attributes:
        accepted_at_ms: When the ingress took it.
        start_at_ms: What every timeout counts from.
        first_at_ms: It must have been handed over once by then.
        total_at_ms: The end of the caller's patience.
    """

    accepted_at_ms: int
    start_at_ms: int
    first_at_ms: int
    total_at_ms: int


def moments(entry_id: str, now_ms: int, *, ttl_ms: int, total_ms: int, not_before_ms: int = 0) -> Moments:
    """The moments of a message that came by this ingress entry."""
    came_ms, _ = ids.stream_id(entry_id)
    accepted_ms = now_ms if came_ms > now_ms + MAX_AHEAD_MS else min(came_ms, now_ms)
    start_ms = max(accepted_ms, not_before_ms)
    return Moments(accepted_ms, start_ms, start_ms + ttl_ms, start_ms + total_ms)


def window_ms(total_ms: int) -> int:
    """How long a record is remembered after its end: the dedup window."""
    return min(max(2 * total_ms, MIN_WINDOW_MS), MAX_WINDOW_MS)


def tomb_ms(total_ms: int) -> int:
    """How long a cancel that came first is remembered."""
    return max(total_ms, MIN_TOMB_MS)
