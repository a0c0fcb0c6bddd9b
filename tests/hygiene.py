"""What a used Redis may hold: only keys of the table, each of its type and with its lifetime."""

import re
from collections.abc import Iterable

import redis

from reach.backend.keys import LANES, TABLE, Row

_ENV = r"[a-z0-9][a-z0-9-]{0,31}"
_ID = r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}"
_PLACEHOLDERS = {
    "lane": "|".join(LANES),
    "agent_id": _ID,
    "mailbox": _ID,
    "source": _ID,
    "msg_id": r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",
}


def pattern_of(row: Row) -> re.Pattern[str]:
    """The regular expression of the names that a row of the table allows."""
    pieces = []
    for piece in re.split(r"(\{[TE]\}|<[a-z_]+>)", row.pattern):
        if piece == "{T}":
            pieces.append(r"\{" + _ENV + r"\.[0-9]+\}")
        elif piece == "{E}":
            pieces.append(r"\{" + _ENV + r"\}")
        elif piece.startswith("<"):
            pieces.append("(?:" + _PLACEHOLDERS.get(piece[1:-1], r"[^\n]{1,256}") + ")")
        else:
            pieces.append(re.escape(piece))
    return re.compile("".join(pieces))


_PATTERNS = [(pattern_of(row), row) for row in TABLE]


def fault_of(key: str, kind: str, pttl_ms: int) -> str | None:
    """What is wrong with one key; None if the table allows it.

    Args:
        key: Its name.
        kind: What TYPE says.
        pttl_ms: What PTTL says: -1 for a key that never expires.
    """
    row = next((row for pattern, row in _PATTERNS if pattern.fullmatch(key)), None)
    if row is None:
        return f"{key}: no row of the key table"
    if kind not in row.types:
        return f"{key}: is a {kind}, the table says {' or '.join(row.types)}"
    if row.ttl and pttl_ms == -1:
        return f"{key}: never expires, the table says: {row.lifetime}"
    if not row.ttl and pttl_ms != -1:
        return f"{key}: expires in {pttl_ms} ms, the table says: {row.lifetime}"
    return None


def walk(url: str, allowed: Iterable[str] = ()) -> list[str]:
    """The faults of all keys of a server. `allowed`: regular expressions of names that are the test's own business."""
    own = [re.compile(pattern) for pattern in allowed]
    faults = []
    with redis.Redis.from_url(url) as client:
        for raw_key in client.scan_iter(count=1000):
            key = raw_key.decode(errors="backslashreplace")
            if any(pattern.fullmatch(key) for pattern in own):
                continue
            kind = client.type(raw_key).decode()
            pttl_ms = client.pttl(raw_key)
            if kind == "none" or pttl_ms == -2:
                continue  # it expired between two looks
            fault = fault_of(key, kind, pttl_ms)
            if fault is not None:
                faults.append(fault)
    return faults
