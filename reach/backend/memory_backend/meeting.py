"""meet, met: whom a source has met, and whom one of its conversations has."""

import re

from reach.backend.bounds import MAX_MET, MET_MS
from reach.backend.memory_backend.store import Store, ZSet
from reach.backend.steps import Meeting, Met

_MEMBER = re.compile(r"([A-Za-z0-9._-]+)(?: ([0-9A-Fa-f]+))?")


def meet(store: Store, key: str, one: Meeting) -> None:
    """What is older than an hour goes, and of too many the oldest."""
    now_ms = store.now_ms()
    store.clear_wrong(key, "zset")
    known = store.make_zset(key)
    known[one.agent] = known[f"{one.agent} {one.conversation}"] = now_ms
    kept = _in_order(known, now_ms - MET_MS)[-MAX_MET:]
    known.clear()
    known.update(kept)
    store.expire_at(key, now_ms + MET_MS)


def met(store: Store, key: str, stamp: str) -> list[Met]:
    """Whom the source has met within the last hour; `here`: in the conversation of this stamp."""
    now_ms = store.now_ms()
    store.clear_wrong(key, "zset")
    found: list[Met] = []
    for member, at_ms in _in_order(store.zset(key) or ZSet(), now_ms - MET_MS):
        read = _MEMBER.fullmatch(member)
        if read is not None and at_ms <= now_ms + MET_MS and read[2] in {None, stamp}:
            found.append(Met(read[1], at_ms, read[2] is not None))
    return found


def _in_order(known: ZSet, since_ms: int) -> list[tuple[str, int]]:
    """As Redis has them: by score, then by the bytes of the member."""
    there = [(member, at_ms) for member, at_ms in known.items() if at_ms >= since_ms]
    return sorted(there, key=lambda one: (one[1], one[0].encode("utf-8", "surrogateescape")))
