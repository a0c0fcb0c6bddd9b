"""A Redis stream on a dict: ids that only rise, groups with pending entries, delivery times and idle.

Ids are text, `<ms>-<seq>`, as in Redis; inside they are pairs, since text does not sort.
"""

import bisect
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from reach import ids
from reach.errors import BackendError

Id = tuple[int, int]
Fields = dict[bytes, bytes]
Entry = tuple[str, Fields]

ZERO: Id = (0, 0)
_MAX_SEQ = 2**64 - 1
LAST: Id = (_MAX_SEQ, _MAX_SEQ)
AHEAD_MS = 60_000  # an id further ahead of the clock than this is hostile


class BadId(BackendError):
    """An entry id that is no `<ms>-<seq>`, or is not greater than the last one."""

    default_code = "backend.bad_id"


def parse_id(text: str) -> Id:
    """`5-1`, or `5` for `5-0`."""
    try:
        return ids.stream_id(text)
    except ValueError as error:
        raise BadId(str(error)) from None


def is_ahead(entry_id: Id, now_ms: int) -> bool:
    """Whether an id lies in the far future."""
    return entry_id[0] > now_ms + AHEAD_MS


def format_id(entry_id: Id) -> str:
    return f"{entry_id[0]}-{entry_id[1]}"


@dataclass(slots=True)
class Pending:
    """An entry that was delivered and not acknowledged."""

    consumer: str
    delivered_at_ms: int
    deliveries: int = 1

    def idle_ms(self, now_ms: int) -> int:
        """How long ago it was delivered or claimed; 0 after a step back of the clock."""
        return max(now_ms - self.delivered_at_ms, 0)


class Stream:
    """Entries in the order of their ids."""

    __slots__ = ("_entries", "_order", "added", "groups", "last_id")

    def __init__(self) -> None:
        self._entries: dict[Id, Fields] = {}
        self._order: list[Id] = []  # rises; ids of deleted entries stay until half of it is dead
        self.last_id: Id = ZERO
        self.added = 0
        self.groups: dict[str, Group] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, fields: Fields, now_ms: int, *, entry_id: str = "*", max_entries: int = 0) -> str:
        """XADD. `*`: by the clock, and where that has not moved on, the last id plus one."""
        if entry_id == "*":
            new = (now_ms, 0) if now_ms > self.last_id[0] else (self.last_id[0], self.last_id[1] + 1)
        else:
            new = parse_id(entry_id)
        if new <= self.last_id or new[1] > _MAX_SEQ:
            raise BadId(f"{entry_id} is not greater than the last id {format_id(self.last_id)}")
        self.last_id = new
        self._entries[new] = dict(fields)
        self._order.append(new)
        self.added += 1
        if max_entries and len(self._entries) > max_entries:
            self.trim(max_entries)
        return format_id(new)

    def trim(self, max_entries: int) -> int:
        """XTRIM MAXLEN: drop the oldest. Pending entries lose their body and stay pending, as in Redis."""
        doomed = list(self._entries)[: max(len(self._entries) - max_entries, 0)]
        return self.delete(map(format_id, doomed))

    def trim_before(self, first: Id) -> int:
        """XTRIM MINID."""
        doomed = [format_id(entry_id) for entry_id in itertools.takewhile(lambda each: each < first, self._entries)]
        return self.delete(doomed)

    def delete(self, entry_ids: Iterable[str]) -> int:
        """XDEL; the number of entries that were there."""
        count = sum(self._entries.pop(parse_id(entry_id), None) is not None for entry_id in entry_ids)
        if len(self._order) > 2 * len(self._entries) + 64:
            self._order = list(self._entries)
        return count

    def get(self, entry_id: str) -> Fields | None:
        """XRANGE of one id."""
        return self._entries.get(parse_id(entry_id))

    def after(self, entry_id: Id, count: int = 0) -> list[Entry]:
        """The entries behind an id, at most `count` (0 = all)."""
        found: list[Entry] = []
        for index in range(bisect.bisect_right(self._order, entry_id), len(self._order)):
            fields = self._entries.get(self._order[index])
            if fields is not None:
                found.append((format_id(self._order[index]), fields))
                if len(found) == count:
                    break
        return found

    def all(self) -> Iterator[Entry]:
        """Every entry, oldest first."""
        return ((format_id(entry_id), fields) for entry_id, fields in list(self._entries.items()))

    def group(self, name: str) -> "Group | None":
        return self.groups.get(name)

    def make_group(self, name: str, start: str = "0-0") -> "Group":
        """XGROUP CREATE; one that is there already is left as it is (BUSYGROUP is success)."""
        return self.groups.setdefault(name, Group(self, parse_id(start)))

    def ahead(self, now_ms: int) -> bool:
        """Whether the id behind which the next one comes lies in the far future."""
        return is_ahead(self.last_id, now_ms)

    @property
    def is_full(self) -> bool:
        """Behind the last possible id there is none."""
        return self.last_id == LAST

    def rewind(self, now_ms: int, *, hands: bool = False) -> bool:
        """Wind the ids back to now. What lies here stays, under its id if that is none of the future; False: it cannot be.

        `hands`: the ids of entries mean something (an inbox), and none of them may change.
        """
        if not self.ahead(now_ms):
            return False
        sane = [entry_id for entry_id in self._entries if not is_ahead(entry_id, now_ms)]
        above = {entry_id: fields for entry_id, fields in self._entries.items() if is_ahead(entry_id, now_ms)}
        if hands and above.keys() - {LAST}:
            return False
        self._entries = {entry_id: self._entries[entry_id] for entry_id in sane}
        self._order = sane
        newest = max(sane, default=ZERO)
        self.last_id = max((now_ms + 1, 0), newest)  # an id of now may have been given out already
        for group in self.groups.values():
            if is_ahead(group.last_delivered, now_ms):
                group.last_delivered = newest
            group.pending = {entry_id: row for entry_id, row in group.pending.items() if entry_id in self._entries}
        for fields in () if hands else above.values():
            self.add(fields, now_ms)
            self.added -= 1
        return True


@dataclass(slots=True)
class Group:
    """A consumer group: what was delivered to whom and is not acknowledged."""

    stream: Stream
    last_delivered: Id = ZERO
    entries_read: int = 0
    consumers: dict[str, int] = field(default_factory=dict)
    """Who reads, and when each was last seen."""
    pending: dict[Id, Pending] = field(default_factory=dict)

    def read(self, consumer: str, count: int, now_ms: int) -> list[Entry]:
        """XREADGROUP `>`: never-delivered entries, now pending to `consumer`."""
        if count <= 0:
            return []
        self.consumers[consumer] = now_ms
        entries = self.stream.after(self.last_delivered, count)
        for entry_id, _ in entries:
            self.last_delivered = parse_id(entry_id)
            self.pending[self.last_delivered] = Pending(consumer, now_ms)
            self.entries_read += 1
        return entries

    def held_by(self, consumer: str) -> list[tuple[str, Fields | None]]:
        """XPENDING of `consumer`, with the entries; None where the body is gone."""
        ids = sorted(entry_id for entry_id, pending in self.pending.items() if pending.consumer == consumer)
        return [(format_id(entry_id), self.stream.get(format_id(entry_id))) for entry_id in ids]

    def own(
        self, consumer: str, now_ms: int, count: int | None = None, after: str = "0"
    ) -> list[tuple[str, Fields | None]]:
        """XREADGROUP `after`: the same, the oldest `count` of those behind it, and what has a body is delivered once more."""
        start = ZERO if after == "0" else parse_id(after)
        found = [entry for entry in self.held_by(consumer) if parse_id(entry[0]) > start][:count]
        for entry_id, fields in found:
            if fields is not None:
                pending = self.pending[parse_id(entry_id)]
                pending.delivered_at_ms = now_ms
                pending.deliveries += 1
        return found

    def pending_of(self, entry_id: str) -> Pending | None:
        """XPENDING of one id."""
        return self.pending.get(parse_id(entry_id))

    def all_pending(self) -> list[tuple[str, Pending]]:
        """XPENDING, oldest entry first."""
        return [
            (format_id(entry_id), pending)
            for entry_id, pending in sorted(self.pending.items(), key=lambda item: item[0])
        ]

    def ack(self, entry_id: str) -> bool:
        """XACK; False: it was not pending."""
        return self.pending.pop(parse_id(entry_id), None) is not None

    def sweep(self, consumer: str, idle_ms: int, now_ms: int) -> int:
        """XGROUP DELCONSUMER of one consumer, or ("") of all not seen for `idle_ms`; of those alone that hold nothing."""
        holding = {pending.consumer for pending in self.pending.values()}
        goes = [
            name
            for name, seen_at_ms in self.consumers.items()
            if name not in holding and (name == consumer or (not consumer and now_ms - seen_at_ms >= idle_ms))
        ]
        for name in goes:
            del self.consumers[name]
        return len(goes)

    def claim(self, consumer: str, entry_ids: Iterable[str], now_ms: int, *, force: bool = False) -> list[str]:
        """XCLAIM JUSTID with min-idle 0: those that are pending and still in the stream. The delivery count stays.

        `force` (FORCE): also those that are in the stream and not pending.
        """
        claimed: list[str] = []
        for entry_id in entry_ids:
            pending = self.pending_of(entry_id)
            if pending is None and force and self.stream.get(entry_id) is not None:
                pending = self.pending[parse_id(entry_id)] = Pending(consumer, now_ms)
            if pending is None:
                continue
            if self.stream.get(entry_id) is None:
                self.ack(entry_id)  # Redis >= 7 drops it from the pending list
                continue
            pending.consumer = consumer
            pending.delivered_at_ms = now_ms
            self.consumers[consumer] = now_ms
            claimed.append(entry_id)
        return claimed

    def left(self, consumer: str, idle_ms: int, count: int, now_ms: int) -> list[tuple[str, Fields | None]]:
        """XPENDING IDLE, and XCLAIM of those that have a body; those that have none (None) stay as they are."""
        found: list[tuple[str, Fields | None]] = []
        for entry_id, pending in [row for row in self.all_pending() if row[1].idle_ms(now_ms) >= idle_ms][:count]:
            fields = self.stream.get(entry_id)
            if fields is not None:
                self.consumers[consumer] = now_ms
                pending.consumer = consumer
                pending.delivered_at_ms = now_ms
                pending.deliveries += 1
            found.append((entry_id, fields))
        return found

    def autoclaim(self, consumer: str, idle_ms: int, count: int, now_ms: int) -> tuple[list[Entry], list[str]]:
        """XAUTOCLAIM from the start: (claimed, ids whose body is gone; those are no longer pending)."""
        claimed: list[Entry] = []
        gone: list[str] = []
        self.consumers[consumer] = now_ms
        for key in sorted(self.pending):
            if len(claimed) >= count:
                break
            pending = self.pending[key]
            if pending.idle_ms(now_ms) < idle_ms:
                continue
            entry_id = format_id(key)
            fields = self.stream.get(entry_id)
            if fields is None:
                del self.pending[key]
                gone.append(entry_id)
                continue
            pending.consumer = consumer
            pending.delivered_at_ms = now_ms
            pending.deliveries += 1
            claimed.append((entry_id, fields))
        return claimed, gone
