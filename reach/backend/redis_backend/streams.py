"""Streams as reach reads them: groups that come back by themselves, entries without a body, replies of every server version."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import msgspec

from reach import ids
from reach.backend.connection import MAX_BLOCK_MS, Link, Reply
from reach.backend.scripts import script
from reach.errors import BackendError
from reach.log import PacedLog, event_log

log = event_log("reach.backend")

HEAL_PACE_MS = 100
MAX_REMEMBERED = 10_000
HEALS_A_READ = 3

#: what Redis says when a stream or its group is gone, or when the key holds something else
LOST = frozenset({"NOGROUP", "UNBLOCKED", "WRONGTYPE"})


class Entry(NamedTuple):
    """An entry of a stream. `fields` is None when its body is gone: deleted while it was pending."""

    id: str
    fields: dict[bytes, bytes] | None


def code_of(error: BackendError) -> str:
    """The first word of the reply that this error was made of."""
    return str(error.details.get("reply_code", ""))


def lost(error: BackendError) -> bool:
    """Whether a key is not what it should be, so that `heal_key` helps: gone, of another type, or at the end of its ids."""
    return code_of(error) in LOST or "last possible ID" in str(error.details.get("reply", ""))


def text_of(raw: bytes) -> str:
    """What a reply or a field says. Anybody may have written it: what is no UTF-8 is read around, and names nothing that there is."""
    return raw.decode("utf-8", "replace")


@contextmanager
def reading(what: str, **details: Any) -> Iterator[None]:
    """Around the reading of what was stored: what cannot be read is a BackendError with these details, never a crash of the caller."""
    try:
        yield
    except (msgspec.MsgspecError, ValueError, TypeError, LookupError) as error:
        raise BackendError(
            f"{what} cannot be read: {error}", details={**details, "reason": str(error)[:300]}
        ) from error


def entries_of(reply: Reply) -> list[Entry]:
    """A list of entries, as XRANGE, XREAD, XCLAIM and XAUTOCLAIM give it. Redis before 7 has nil for an entry that is gone."""
    return [Entry(text_of(raw[0]), _fields(raw[1])) for raw in reply or () if raw is not None]


def _fields(flat: list[bytes] | None) -> dict[bytes, bytes] | None:
    if flat is None:
        return None
    return dict(zip(flat[::2], flat[1::2], strict=True))


def pairs_of(flat: Iterable[Any]) -> dict[bytes, Any]:
    """A flat list of names and values (HGETALL, WITHSCORES) as a dict."""
    each = iter(flat)
    return dict(zip(each, each, strict=True))


def facts_of(info: bytes) -> dict[str, str]:
    """The lines of INFO as a dict."""
    lines = (line.partition(":") for line in text_of(info).splitlines())
    return {name: value.strip() for name, colon, value in lines if colon}


def moment_of(score: bytes) -> int:
    """A score as a moment in ms. Anybody may have written it: what is infinite is no moment, and as long ago as can be."""
    value = float(score)
    return int(value) if math.isfinite(value) else 0


class Streams:
    """Reads over one Link. A group that is lost anywhere is made anew at id 0, paced, with one warning per stream in 10 s."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._healed_at_ms: dict[str, int] = {}
        self._log = PacedLog(log, link.clock)
        self._seen: set[str] = set()

    async def read_group(
        self, group: str, consumer: str, cursors: Mapping[str, str], max_entries: int, block_ms: int = 0
    ) -> list[tuple[str, list[Entry]]]:
        """XREADGROUP over streams (key -> `>` or an id of the consumer's own history)."""
        head = ["XREADGROUP", "GROUP", group, consumer, "COUNT", max_entries]
        return await self._read(head, cursors, group, block_ms)

    async def read(
        self, cursors: Mapping[str, str], max_entries: int, block_ms: int = 0
    ) -> list[tuple[str, list[Entry]]]:
        """XREAD behind cursors (key -> id). A key that is missing, or that held something else, has nothing to read yet."""
        return await self._read(["XREAD", "COUNT", max_entries], cursors, "", block_ms)

    async def _read(
        self, head: Sequence[Any], cursors: Mapping[str, str], group: str, block_ms: int
    ) -> list[tuple[str, list[Entry]]]:
        clock = self._link.clock
        end_ms = clock.monotonic_ms() + block_ms
        heals = 0
        while True:
            left_ms = max(end_ms - clock.monotonic_ms(), 0)
            block = min(left_ms, MAX_BLOCK_MS)
            wait = ["BLOCK", block] if block else []
            try:
                reply = await self._link.read(*head, *wait, "STREAMS", *cursors, *cursors.values(), block_ms=block)
            except BackendError as error:
                if code_of(error) not in LOST or heals >= HEALS_A_READ:
                    raise
                heals += 1
                await self.heal(cursors, group)
                continue
            if len(self._seen) > MAX_REMEMBERED:
                self._seen.clear()
            self._seen.update(cursors)
            if reply or left_ms <= MAX_BLOCK_MS:
                return [(text_of(key), entries_of(entries)) for key, entries in reply or ()]

    async def ends_before(self, key: str, cursor: str) -> bool:
        """Whether a stream was made anew after its ids had run ahead of the clock: nothing in it will ever lie behind this cursor."""
        try:
            last = await self._link.call("XREVRANGE", key, "+", "-", "COUNT", 1)
        except BackendError as error:
            if not lost(error):
                raise
            await self.heal((key,), "")
            return False
        return bool(last) and cursor != "$" and ids.stream_id(last[0][0]) < ids.stream_id(cursor)

    async def own(self, key: str, group: str, consumer: str, page: int = 200) -> list[Entry]:
        """Everything that is pending to this consumer, also entries whose body is gone."""
        found: list[Entry] = []
        cursor = "0"
        while True:
            read = await self.read_group(group, consumer, {key: cursor}, page)
            entries = read[0][1] if read else []
            found += entries
            if len(entries) < page:
                return found
            cursor = entries[-1].id

    async def claim(self, key: str, group: str, consumer: str, idle_ms: int, max_entries: int) -> list[Entry]:
        """XAUTOCLAIM until `max_entries` are found or all of what is pending was looked at.

        The reply has two parts on old servers. New ones forget entries without a body by themselves, and name them in a third.
        """
        found: list[Entry] = []
        cursor = b"0-0"
        heals = 0
        while True:
            count = max_entries - len(found)
            try:
                reply = await self._link.call(
                    "XAUTOCLAIM", key, group, consumer, idle_ms, cursor, "COUNT", max(count, 1)
                )
            except BackendError as error:
                if code_of(error) not in LOST or heals >= HEALS_A_READ:
                    raise
                heals += 1
                await self.heal((key,), group)
                continue
            cursor = reply[0]
            found += entries_of(reply[1])
            found += [Entry(text_of(entry_id), None) for part in reply[2:] for entry_id in part]
            if cursor == b"0-0" or len(found) >= max_entries:
                return found

    async def whole(self, key: str, group: str, entries: Sequence[Entry]) -> list[Entry]:
        """Those that have a body. The others are acknowledged, else they would come again for ever, and told: somebody deleted work."""
        empty = [entry.id for entry in entries if entry.fields is None]
        if empty:
            self._log.warning("bodies lost", of=key, stream=key, count=len(empty), first=empty[0])
            await self.discard(key, group, empty)
        return [entry for entry in entries if entry.fields is not None]

    async def discard(self, key: str, group: str, ids: Sequence[str]) -> None:
        """XACK and XDEL: nobody needs these entries any more. A stream that is gone has none of them."""
        if ids:
            await self._link.run(script("finish"), key, group, *ids)

    async def heal(self, keys: Iterable[str], group: str) -> None:
        """Make streams and their group anew where they are lost. Not more often than every 100 ms for one stream."""
        now_ms = self._link.clock.monotonic_ms()
        keys = tuple(keys)
        latest_ms = max((self._healed_at_ms.get(key, -HEAL_PACE_MS) for key in keys), default=0)
        if now_ms - latest_ms < HEAL_PACE_MS:
            await self._link.pause(2 * HEAL_PACE_MS)
            now_ms = self._link.clock.monotonic_ms()
        if len(self._healed_at_ms) > MAX_REMEMBERED:
            self._healed_at_ms.clear()
        for key in keys:
            self._healed_at_ms[key] = now_ms
            # One that was never read is only new.
            if key in self._seen:
                self._log.warning("stream lost", of=key, stream=key, group=group)
        for reply in await self._link.run_each(script("heal_key"), [(key, "stream", group) for key in keys]):
            if isinstance(reply, BackendError):
                raise reply
