"""Events as JSON lines, a file for each day: for whoever ships them on with tools of their own."""

import asyncio
import os
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from reach.errors import ConfigError
from reach.events.days import Days, day_of
from reach.events.store import Event, Query, StoreUnavailable, event_of, fits

_Line = tuple[int, str, bytes]


class JsonLines:
    """A folder of `events-<day>.jsonl`. Each line is `{"key": ..., "event": <the record>}`.

    A record may stand there twice after a crash, under the same key; `find` tells it once.
    """

    def __init__(self, folder: str, *, days: int = 30) -> None:
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
                line = b'{"key":"%s","event":%s}\n' % (event.key.encode(), event.body.replace(b"\n", b" "))
                by_day.setdefault(day_of(event.at_us), []).append(line)
            for day, lines in by_day.items():
                with self._days.path(day).open("a+b") as file:
                    if _is_torn(file):  # whoever wrote the last line was killed in the middle of it
                        file.write(b"\n")
                    file.write(b"".join(lines))
                    file.flush()
                    os.fsync(file.fileno())
            return len(events)

        try:
            return await asyncio.to_thread(append)
        except OSError as error:
            raise StoreUnavailable(f"event store {self._days.folder}: {error.strerror or error}") from error

    async def find(self, query: Query) -> list[dict[str, Any]]:
        """Read through the days; see EventStore."""

        def look() -> list[dict[str, Any]]:
            found: dict[str, _Line] = {}
            for day in reversed(self._days.there(query.since_us, query.until_us)):
                for event in _events_in(self._days.path(day).read_bytes()):
                    if fits(event, query):
                        found.setdefault(event.key, (event.at_us, event.key, event.body))
                if len(found) >= query.max_found:
                    break
            newest = sorted(found.values())[-query.max_found :]
            return [msgspec.json.decode(body) for _, _, body in newest]

        try:
            return await asyncio.to_thread(look)
        except OSError as error:
            raise StoreUnavailable(f"event store {self._days.folder}: {error.strerror or error}") from error

    async def prune(self, now_us: int) -> int:
        """Delete the files of old days."""

        def delete() -> int:
            gone = self._days.old(now_us)
            for day in gone:
                self._days.path(day).unlink(missing_ok=True)
            return len(gone)

        return await asyncio.to_thread(delete)

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


def _events_in(data: bytes) -> Iterator[Event]:
    for line in data.splitlines():
        try:
            written = _written.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            continue  # a line that was torn
        event = event_of(written.key, bytes(written.event))
        if event is not None:
            yield event
