"""The tick of `due`: when it ran last, and what an outage or a step of the clock holds up."""

import heapq
from typing import NamedTuple

from reach.backend.keys import GROUP_ROUTERS
from reach.backend.memory_backend.partition import Partition
from reach.backend.memory_backend.store import WrongType
from reach.backend.memory_backend.streams import Pending

LEASE_MS = 15_000
GRACE_MS = 15_000
MAX_LOWERED = 1_000


class Tick(NamedTuple):
    """Until when no lease, network or processing timer ends. `left`: moments of a clock that has stepped back are not all lowered yet."""

    grace_until_ms: int
    left: bool


def tick(part: Partition) -> Tick:
    """Note this run of `due`.

    A gap between two runs means that nobody could renew either (an outage, a step of the clock): without a grace one stall
    would take everybody's work. It is never trusted beyond 15 s, and a slow router does not set it again and again.
    """
    key, now_ms = part.keys.tick(part.number), part.now_ms
    part.store.clear_wrong(key, "hash")
    stored = part.store.make_hash(key)
    last_ms, until_ms, start_ms = (int(stored.get(name, b"-1")) for name in ("last", "until", "start"))
    ahead = last_ms > now_ms
    missing_or_future = last_ms < 0 or ahead
    grace_until_ms = min(max(until_ms, 0), now_ms + GRACE_MS)
    start_ms = max(start_ms, 0)
    if missing_or_future or now_ms - last_ms > 3_000:
        long_gap = missing_or_future or now_ms - last_ms > 5_000
        if long_gap or now_ms - start_ms >= 30_000 or start_ms > now_ms:
            grace_until_ms, start_ms = now_ms + GRACE_MS, now_ms
    for name, moment in (("last", now_ms), ("until", grace_until_ms), ("start", start_ms)):
        stored[name] = str(moment).encode()
    if ahead:
        _restamp_doors(part)
    left = (ahead or "back" in stored) and _lowered(part)
    if left:
        stored["back"] = str(now_ms).encode()
    else:
        stored.pop("back", None)
    return Tick(grace_until_ms, left)


def restamp(pending: Pending, now_ms: int) -> None:
    """Let an entry that was delivered in the future, before the clock stepped back, count from now."""
    if pending.idle_ms(now_ms) == 0:
        pending.delivered_at_ms = now_ms


def _restamp_doors(part: Partition) -> None:
    for key in part.keys.work(part.number):
        try:
            stream = part.store.stream(key)
        except WrongType:
            continue
        group = stream.group(GROUP_ROUTERS) if stream is not None else None
        for _, pending in group.all_pending()[:MAX_LOWERED] if group is not None else ():
            restamp(pending, part.now_ms)


def _lowered(part: Partition) -> bool:
    """Bring near what lies too far ahead: only a look shows which of it are leases; the rest is put back then. True: there is more."""
    moments, near_ms = part.due_moments(), part.now_ms + LEASE_MS
    far = ((at_ms, msg_id) for msg_id, at_ms in moments.items() if at_ms > near_ms)
    lowered = heapq.nsmallest(MAX_LOWERED, far)
    moments.update((msg_id, near_ms) for _, msg_id in lowered)
    part.store.drop_empty(part.keys.due(part.number))
    return len(lowered) == MAX_LOWERED
