"""Events as JSON lines, a file for each day: for whoever ships them on with tools of their own."""

import asyncio
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from reach.errors import ConfigError
from reach.events.days import Days, day_of
from reach.events.store import Event, Query, StoreUnavailable, event_of, fits, record_of

_Line = tuple[int, str, bytes]
#: A record is JSON, where a line may only end between two words.
_ONE_LINE = bytes.maketrans(b"\r\n", b"  ")


class JsonLines:
    """A folder of `events-<day>.jsonl`. Each line is `{"key": ..., "event": <the record>}`.

    A record may stand there twice after a crash, under the same key; `find` tells it once.
    """

    def __init__(self, folder: str, *, days: int = 30) -> None:
        self.refused = self.lost = 0  # it takes whatever an event can be
        self._days = Days(folder, ".jsonl", days)

    async def open(self) -> None:
        """Make the folder.

        Raises:
            ConfigError: It cannot be made.
        """
        try:
            await asyncio.to_thread(self._days.folder.mkdir, parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"event store {self._days.folder}: {error.strerror or error}") from error

    async def write(self, events: Sequence[Event]) -> int:
        """Append them and wait for the disk; see EventStore."""

        def append() -> int:
            by_day: dict[str, list[bytes]] = {}
            for event in events:
                line = b'{"key":"%s","event":%s}\n' % (event.key.encode(), event.body.translate(_ONE_LINE))
                by_day.setdefault(day_of(event.at_us), []).append(line)
            self._days.folder.mkdir(parents=True, exist_ok=True)
            for day, lines in by_day.items():
                with self._days.path(day).open("a+b", buffering=0) as file:
                    _append(file, b"".join(lines))
            return len(events)

        try:
            return await asyncio.to_thread(append)
        except OSError as error:
            raise StoreUnavailable(f"event store {self._days.folder}: {error.strerror or error}") from error

    async def find(self, query: Query) -> list[dict[str, Any]]:
        """Read through the days; see EventStore."""

        def look() -> list[dict[str, Any]]:
            self._days.must_be_there()
            found: dict[str, _Line] = {}
            for day in reversed(self._days.there(query.since_us, query.until_us)):
                for event in _events_in(self._days.path(day)):
                    if fits(event, query):
                        found.setdefault(event.key, (event.at_us, event.key, event.body))
                        if len(found) >= 2 * query.max_found + 1_000:
                            found = {line[1]: line for line in _newest(found, query)}
                if len(found) >= query.max_found:
                    break
            return [record_of(body) for _, _, body in _newest(found, query)]

        try:
            return await asyncio.to_thread(look)
        except OSError as error:
            raise StoreUnavailable(f"event store {self._days.folder}: {error.strerror or error}") from error

    async def prune(self, now_us: int) -> int:
        """Delete the files of old days."""

        def delete() -> int:
            gone = self._days.old(now_us)
            for paths in gone.values():
                for path in paths:
                    path.unlink(missing_ok=True)
            return len(gone)

        try:
            return await asyncio.to_thread(delete)
        except OSError as error:
            raise StoreUnavailable(f"event store {self._days.folder}: {error.strerror or error}") from error

    async def close(self) -> None:
        """Nothing is held open."""


class _Written(msgspec.Struct):
    key: str
    event: msgspec.Raw


_written = msgspec.json.Decoder(_Written)


def _is_torn(file: Any) -> bool:
    if not file.seek(0, os.SEEK_END):
        return False
    file.seek(-1, os.SEEK_END)
    return bool(file.read(1) != b"\n")


def _append(file: Any, data: bytes) -> None:
    """All of it, on disk, or nothing: half of it would come again with every attempt, until the disk is full of halves."""
    if _is_torn(file):  # whoever wrote the last line was killed in the middle of it
        data = b"\n" + data
    begin = file.seek(0, os.SEEK_END)
    try:
        left = memoryview(data)
        while left:
            left = left[file.write(left) :]
        os.fsync(file.fileno())
    except OSError:
        file.truncate(begin)
        raise


def _events_in(path: Path) -> Iterator[Event]:
    with path.open("rb") as file:
        for line in file:
            try:
                written = _written.decode(line)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                continue  # a line that was torn
            event = event_of(written.key, bytes(written.event))
            if event is not None:
                yield event


def _newest(found: dict[str, _Line], query: Query) -> list[_Line]:
    return sorted(found.values())[-query.max_found :]
