"""Events in SQLite: a file for each day, written ahead (WAL), so that others may read while one writes."""

import asyncio
import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from reach.errors import ConfigError
from reach.events.days import Days, day_of
from reach.events.store import DAY_US, FIELDS, Event, Query, StoreUnavailable, record_of
from reach.log import event_log

T = TypeVar("T")
log = event_log("reach.events")

BUSY_S = 5.0
MAX_OPEN_DAYS = 4
#: the sides from which people look; each costs every write
INDEXED = ("msg_id", "correlation_id", "agent", "code")
_COLUMNS = ("key", "at_us", *FIELDS, "body")
_INSERT = f"INSERT OR IGNORE INTO events ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"  # noqa: S608 - names of ours only
_TEXTS = ", ".join(f"{name} TEXT" for name in FIELDS)
_TABLE = f"CREATE TABLE IF NOT EXISTS events (key TEXT NOT NULL, at_us INTEGER NOT NULL, {_TEXTS}, body BLOB NOT NULL)"
#: Which batches are there: one index entry for a hundred records is what it costs to keep each of them once.
_BATCHES = "CREATE TABLE IF NOT EXISTS batches (name TEXT PRIMARY KEY) WITHOUT ROWID"
_BATCH = "INSERT OR IGNORE INTO batches (name) VALUES (?)"
_MAKE = (
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=NORMAL",  # a machine that loses power may lose the last records, never the file
    "PRAGMA cache_size=-32768",  # KiB: the pages of the indices, which every write touches at random
    "PRAGMA wal_autocheckpoint=8000",  # pages, 32 MB: each page goes back into the file once in many writes
    _TABLE,
    "CREATE INDEX IF NOT EXISTS by_time ON events (at_us)",
    *(f"CREATE INDEX IF NOT EXISTS by_{name} ON events ({name}, at_us) WHERE {name} IS NOT NULL" for name in INDEXED),
    _BATCHES,  # the last: a table of another form has failed by then, and is left as it was
)
_SIDES = ("", "-wal", "-shm")
#: A file that is none, is damaged, or has a table of another form: nothing will ever be written there again.
_UNUSABLE = (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR)


class _Open(NamedTuple):
    """A file that is written. `file`: which one it was when it was opened; another may lie under its name since."""

    database: sqlite3.Connection
    file: tuple[int, int]


class SqliteStore:
    """A folder of SQLite files. One process writes; any number read. Calls run in threads, one at a time.

    A file that cannot be used is moved aside and told, and the day goes on in a new one; so it does where somebody has deleted it.
    """

    def __init__(self, folder: str, *, days: int = 30) -> None:
        self.refused = self.lost = 0  # it takes whatever an event can be
        self._days = Days(folder, ".sqlite", days)
        self._open: dict[str, _Open] = {}
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
            by_day: dict[int, dict[str, list[Event]]] = {}
            for event in events:
                of_day = by_day.setdefault(event.at_us // DAY_US, {})
                of_day.setdefault(event.batch, []).append(event)
            return sum(self._insert(day_of(day * DAY_US), batches) for day, batches in by_day.items())

        return await self._run(insert)

    async def find(self, query: Query) -> list[dict[str, Any]]:
        """Newest days first, until there is enough; see EventStore. May run beside another process that writes."""

        def look() -> list[dict[str, Any]]:
            self._days.must_be_there()
            found: list[bytes] = []
            for day in reversed(self._days.there(query.since_us, query.until_us)):
                left = query.max_found - len(found)
                if left <= 0:
                    break
                found += self._look(self._days.path(day), query, left)
            return [record_of(body) for body in reversed(found)]

        return await self._run(look)

    async def prune(self, now_us: int) -> int:
        """Delete the files of old days."""

        def delete() -> int:
            gone = self._days.old(now_us)
            for day, paths in gone.items():
                self._shut(day)
                for path in paths:
                    path.unlink(missing_ok=True)
            return len(gone)

        return await self._run(delete)

    async def close(self) -> None:
        """Close every file."""

        def shut() -> None:
            for day in tuple(self._open):
                self._shut(day)

        await self._run(shut)

    def _insert(self, day: str, batches: Mapping[str, Sequence[Event]]) -> int:
        for last in (False, True):
            try:
                database = self._writable(day)
                with database:
                    new = [name for name in batches if database.execute(_BATCH, (name,)).rowcount]
                    return database.executemany(_INSERT, _rows(batches[name] for name in new)).rowcount if new else 0
            except sqlite3.DatabaseError as error:
                if last or not _is_unusable(error):
                    self._shut(day)  # whatever it was (a full disk), the next attempt begins anew
                    raise
                self._move_aside(day, error)
        raise AssertionError("unreachable")

    def _look(self, path: Path, query: Query, most: int) -> list[bytes]:
        try:
            return _read(path, query, most)
        except sqlite3.DatabaseError as error:
            if path.exists() and not _is_unusable(error):
                raise _explained(error, path) from error
            # One day that is damaged, or that has gone meanwhile, hides no other.
            log.warning("a day of events cannot be read", extra={"file": str(path), "error": str(error)})
            return []

    def _writable(self, day: str) -> sqlite3.Connection:
        path = self._days.path(day)
        held = self._open.get(day)
        if held is not None and held.file != _file_at(path):
            log.error("a file of events was deleted or replaced under us", extra={"file": str(path)})
            self._shut(day)
            held = None
        if held is None:
            if len(self._open) >= MAX_OPEN_DAYS:
                self._shut(min(self._open))
            self._days.folder.mkdir(parents=True, exist_ok=True)
            database = sqlite3.connect(path, timeout=BUSY_S, check_same_thread=False)
            held = self._open[day] = _Open(database, _file_at(path))
            for statement in _MAKE:
                database.execute(statement)
        return held.database

    def _shut(self, day: str) -> None:
        held = self._open.pop(day, None)
        if held is not None:
            held.database.close()

    def _move_aside(self, day: str, error: sqlite3.DatabaseError) -> None:
        path, held = self._days.path(day), self._open.get(day)
        mine = held is not None and held.file == _file_at(path)  # else another archiver has done it
        self._shut(day)
        if not mine:
            return
        to = self._days.aside(day)
        for side in _SIDES:
            beside = path.with_name(path.name + side)
            if beside.exists():
                beside.rename(to.with_name(to.name + side))
        log.error(
            "a file of events cannot be used and was moved aside", extra={"file": to.name, "error": str(error)[:200]}
        )

    async def _run(self, work: Callable[[], T]) -> T:
        def alone() -> T:
            with self._alone:
                try:
                    return work()
                except (sqlite3.Error, OSError) as error:
                    raise StoreUnavailable(f"event store {self._days.folder}: {error}") from error

        return await asyncio.to_thread(alone)


def _read(path: Path, query: Query, most: int) -> list[bytes]:
    """The bodies of what fits. Nothing is written: neither beside the file, nor where this user may only read.

    SQLite makes two files beside one that is written ahead, and leaves them there, where it is opened by whoever may not write. Where
    nothing waits to be put back into the file, it is read as one that nobody changes; and again, the other way, if somebody has.
    """
    for is_whole in (True, False):
        before = _state_of(path)
        if is_whole and before[-1]:
            continue  # the last records lie beside it
        uri = f"{path.absolute().as_uri()}?mode=ro{'&immutable=1' if is_whole else ''}"
        try:
            with closing(sqlite3.connect(uri, uri=True, timeout=BUSY_S)) as database:
                found = [body for (body,) in database.execute(*_select(query, most))]
        except sqlite3.DatabaseError:
            if not is_whole or _state_of(path) == before:
                raise
            continue
        if not is_whole or _state_of(path) == before:
            return found
    raise AssertionError("unreachable")


def _state_of(path: Path) -> tuple[int, int, int, int]:
    """Which file it is, how large, of when, and how much lies beside it that is not yet part of it, bytes."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return 0, 0, 0, 0
    try:
        beside = path.with_name(path.name + "-wal").stat().st_size
    except FileNotFoundError:
        beside = 0
    return found.st_ino, found.st_size, found.st_mtime_ns, beside


def _explained(error: sqlite3.DatabaseError, path: Path) -> sqlite3.DatabaseError | StoreUnavailable:
    """The same, where this user may not read there: in words that help."""
    if (getattr(error, "sqlite_errorcode", 0) & 0xFF) not in {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY}:
        return error
    if not os.access(path, os.R_OK, effective_ids=os.access in os.supports_effective_ids):
        return StoreUnavailable(f"event store {path}: this user may not read it: ask as the user of the archiver")
    return StoreUnavailable(
        f"event store {path}: its last records lie beside it (-wal), and whoever reads them has to write in the folder, which this "
        "user may not: ask as the user of the archiver, or copy the files of that day elsewhere"
    )


def _rows(batches: Iterable[Sequence[Event]]) -> Iterator[tuple[Any, ...]]:
    for batch in batches:
        for event in {event.key: event for event in batch}.values():  # it may lie there twice
            yield (event.key, event.at_us, *event.values, event.body)


def _file_at(path: Path) -> tuple[int, int]:
    """Which file lies there; nothing: (0, 0)."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return 0, 0
    return found.st_dev, found.st_ino


def _is_unusable(error: sqlite3.DatabaseError) -> bool:
    code = getattr(error, "sqlite_errorcode", None)  # absent: of the module, not of the library
    return code is not None and code & 0xFF in _UNUSABLE


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
