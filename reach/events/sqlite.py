"""Events in SQLite: a file for each day, written ahead (WAL), so that others may read while one writes."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any, TypeVar

import msgspec

from reach.errors import ConfigError
from reach.events.days import Days, day_of
from reach.events.store import FIELDS, Event, Query, StoreUnavailable

T = TypeVar("T")

BUSY_S = 5.0
MAX_OPEN_DAYS = 4
#: the sides from which people look; each costs every write
INDEXED = ("msg_id", "correlation_id", "agent", "code")
_COLUMNS = ("key", "at_us", *FIELDS, "body")
_INSERT = f"INSERT OR IGNORE INTO events ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"  # noqa: S608 - names of ours only
_TEXTS = ", ".join(f"{name} TEXT" for name in FIELDS)
_TABLE = (
    f"CREATE TABLE IF NOT EXISTS events "
    f"(key TEXT PRIMARY KEY, at_us INTEGER NOT NULL, {_TEXTS}, body BLOB NOT NULL) WITHOUT ROWID"
)
_MAKE = (
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=NORMAL",  # a machine that loses power may lose the last records, never the file
    _TABLE,
    "CREATE INDEX IF NOT EXISTS by_time ON events (at_us)",
    *(f"CREATE INDEX IF NOT EXISTS by_{name} ON events ({name}, at_us) WHERE {name} IS NOT NULL" for name in INDEXED),
)
_FULL = (sqlite3.OperationalError, sqlite3.DatabaseError, OSError)


class SqliteStore:
    """A folder of SQLite files. One process writes; any number read. Calls run in threads, one at a time."""

    def __init__(self, folder: str, *, days: int = 30) -> None:
        self._days = Days(folder, ".sqlite", days)
        self._open: dict[str, sqlite3.Connection] = {}
        self._alone = threading.Lock()

    async def open(self) -> None:
        """Make the folder.

        Raises:
            ConfigError: It cannot be made, or not be written.
        """

        def make() -> None:
            try:
                self._days.folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise ConfigError(f"event store {self._days.folder}: {error.strerror or error}") from error

        await asyncio.to_thread(make)

    async def write(self, events: Sequence[Event]) -> int:
        """Insert them, one transaction for each day; see EventStore."""

        def insert() -> int:
            by_day: dict[str, list[tuple[Any, ...]]] = {}
            for event in events:
                values = (event.fields.get(name) for name in FIELDS)
                by_day.setdefault(day_of(event.at_us), []).append((event.key, event.at_us, *values, event.body))
            new = 0
            for day, rows in by_day.items():
                database = self._writable(day)
                with database:
                    new += database.executemany(_INSERT, rows).rowcount
            return new

        return await self._run(insert)

    async def find(self, query: Query) -> list[dict[str, Any]]:
        """Newest days first, until there is enough; see EventStore. May run beside another process that writes."""

        def look() -> list[dict[str, Any]]:
            found: list[bytes] = []
            for day in reversed(self._days.there(query.since_us, query.until_us)):
                left = query.max_found - len(found)
                if left <= 0:
                    break
                uri = f"{self._days.path(day).absolute().as_uri()}?mode=ro"
                with closing(sqlite3.connect(uri, uri=True, timeout=BUSY_S)) as database:
                    found += [body for (body,) in database.execute(*_select(query, left))]
            return [msgspec.json.decode(body) for body in reversed(found)]

        return await self._run(look)

    async def prune(self, now_us: int) -> int:
        """Delete the files of old days."""

        def delete() -> int:
            gone = self._days.old(now_us)
            for day in gone:
                database = self._open.pop(day, None)
                if database is not None:
                    database.close()
                for more in ("", "-wal", "-shm"):
                    path = self._days.path(day)
                    path.with_name(path.name + more).unlink(missing_ok=True)
            return len(gone)

        return await self._run(delete)

    async def close(self) -> None:
        """Close every file."""

        def shut() -> None:
            while self._open:
                self._open.popitem()[1].close()

        await self._run(shut)

    def _writable(self, day: str) -> sqlite3.Connection:
        database = self._open.get(day)
        if database is None:
            if len(self._open) >= MAX_OPEN_DAYS:
                self._open.pop(min(self._open)).close()
            database = sqlite3.connect(self._days.path(day), timeout=BUSY_S, check_same_thread=False)
            for statement in _MAKE:
                database.execute(statement)
            self._open[day] = database
        return database

    async def _run(self, work: Callable[[], T]) -> T:
        def alone() -> T:
            with self._alone:
                try:
                    return work()
                except _FULL as error:
                    raise StoreUnavailable(f"event store {self._days.folder}: {error}") from error

        return await asyncio.to_thread(alone)


def _select(query: Query, most: int) -> tuple[str, list[Any]]:
    wheres, values = list(_wheres(query)), []
    for _, given in wheres:
        values += given
    sql = f"SELECT body FROM events WHERE {' AND '.join(where for where, _ in wheres)} ORDER BY at_us DESC, key DESC LIMIT ?"  # noqa: S608 - names of ours only
    return sql, [*values, most]


def _wheres(query: Query) -> Iterator[tuple[str, list[Any]]]:
    yield "at_us >= ? AND at_us < ?", [query.since_us, query.until_us]
    for name, wanted in query.fields.items():
        yield f"{name} IN ({', '.join('?' * len(wanted))})", list(wanted)
    if query.text:
        escaped = query.text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        yield "CAST(body AS TEXT) LIKE ? ESCAPE '\\'", [f"%{escaped}%"]
