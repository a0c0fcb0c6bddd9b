"""Which keys the key table allows: names, types and lifetimes. Pure."""

import re

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


def row_of(key: str) -> Row | None:
    """The row of the table that allows this name."""
    return next((row for pattern, row in _PATTERNS if pattern.fullmatch(key)), None)


def fault_of(key: str, kind: str, pttl_ms: int) -> str | None:
    """What is wrong with one key; None if the table allows it.

    Args:
        key: Its name.
        kind: What TYPE says.
        pttl_ms: What PTTL says: -1 for a key that never expires.
    """
    row = row_of(key)
    if row is None:
        return f"{key}: no row of the key table"
    if kind not in row.types:
        return f"{key}: is a {kind}, the table says {' or '.join(row.types)}"
    if row.ttl and pttl_ms == -1:
        return f"{key}: never expires, the table says: {row.lifetime}"
    if not row.ttl and pttl_ms != -1:
        return f"{key}: expires in {pttl_ms} ms, the table says: {row.lifetime}"
    return None
