"""spend_rate: takes a message, and the tokens that it needs, from an agent's bucket.

What may be spent in a minute flows back evenly, and no more than that is ever saved up.
"""

from dataclasses import dataclass

from reach import ids
from reach.backend.memory_backend.store import Hash, Store
from reach.envelope.registration import Rate

MINUTE_MS = 60_000
WHOLE = 1_000  # a message, in what a rate counts


@dataclass(slots=True)
class _Measure:
    """A measure of the bucket, in what flows back in a ms: how much it holds, is in it, and is wanted."""

    field: str
    rate: int
    holds: int
    there: int
    wanted: int


def spend_rate(store: Store, key: str, rate: Rate, needed: int, *, back: bool) -> int:
    """0 when it was spent or (`back`) given back; else in how many ms the bucket will have it."""
    now_ms = store.now_ms()
    store.clear_wrong(key, "hash")
    stored = store.hash(key) or Hash()
    at_ms = ids.count_of(stored.get("at", b""))
    # The clock has stepped back: from now on what is there counts, and nothing has flowed back meanwhile.
    stepped = at_ms is not None and at_ms > now_ms
    past_ms = max(now_ms - at_ms, 0) if at_ms is not None else 0

    def measure(field: str, flow: int, least: int, wanted: int) -> _Measure:
        holds = max(flow, least) * MINUTE_MS
        kept = ids.count_of(stored.get(field, b"")) if at_ms is not None else None
        there = min((holds if kept is None else kept) + past_ms * flow, holds)
        return _Measure(field, flow, holds, there, wanted * MINUTE_MS)

    measures = [measure("m", rate.messages, WHOLE, WHOLE)] if rate.messages else []
    if rate.tokens:
        measures.append(measure("t", rate.tokens, 1, min(needed, rate.tokens)))
    missing = [-(-(x.wanted - x.there) // x.rate) for x in measures if not back and x.there < x.wanted]
    wait_ms = max(missing, default=0)
    if not measures or (wait_ms and not stepped):
        return wait_ms
    bucket = store.make_hash(key)
    until_full_ms = MINUTE_MS
    for x in measures:
        left = min(x.there + x.wanted, x.holds) if back else x.there - (0 if wait_ms else x.wanted)
        bucket[x.field] = str(left).encode()
        until_full_ms = max(until_full_ms, -(-(x.holds - left) // x.rate))
    bucket["at"] = str(now_ms).encode()
    store.expire_at(key, now_ms + until_full_ms)
    return wait_ms
