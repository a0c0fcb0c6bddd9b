"""Which store a URL names."""

from urllib.parse import urlsplit

from reach.errors import ConfigError
from reach.events.jsonl import JsonLines
from reach.events.sqlite import SqliteStore
from reach.events.store import EventStore


def open_store(url: str, *, days: int = 30) -> EventStore:
    """The store that a URL names; it is opened by its user.

    Args:
        url: `sqlite:<folder>`, or `jsonl:<folder>`.
        days: How many days of records are kept.

    Raises:
        ConfigError: No store is called so.
    """
    scheme, _, rest = url.partition(":")
    folder = urlsplit(url).path if rest.startswith("//") else rest
    if scheme in {"sqlite", "jsonl"} and folder:
        return SqliteStore(folder, days=days) if scheme == "sqlite" else JsonLines(folder, days=days)
    raise ConfigError(f"{url[:200]!r} is no event store: sqlite:<folder> or jsonl:<folder>")
