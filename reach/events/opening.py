"""Which store a URL names."""

from urllib.parse import urlsplit

from reach.errors import ConfigError
from reach.events.elasticsearch import SCHEMES, ElasticStore
from reach.events.jsonl import JsonLines
from reach.events.sqlite import SqliteStore
from reach.events.store import EventStore
from reach.settings import environment, safe_url


def open_store(url: str, *, days: int = 30) -> EventStore:
    """The store that a URL names; it is opened by its user.

    Args:
        url: `sqlite:<folder>`, `jsonl:<folder>`, `es+http://<host>:9200/<data stream>` or `es+https` (with ELASTIC_API_KEY, or
            ELASTIC_USERNAME and ELASTIC_PASSWORD, in the environment).
        days: How many days of records are kept.

    Raises:
        ConfigError: No store is called so.
    """
    scheme, _, rest = url.partition(":")
    if scheme in SCHEMES:
        return ElasticStore(url, days=days, environ=environment())
    folder = urlsplit(url).path if rest.startswith("//") else rest
    if scheme in {"sqlite", "jsonl"} and folder:
        return SqliteStore(folder, days=days) if scheme == "sqlite" else JsonLines(folder, days=days)
    raise ConfigError(
        f"{safe_url(url)[:200]!r} is no event store: sqlite:<folder>, jsonl:<folder> or es+http://<host>:9200/<name>"
    )
