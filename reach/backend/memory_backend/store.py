"""One process-wide store per name: keys, types, lifetimes, and who waits. What a Redis server is for the Redis backend."""

import heapq
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeVar

import msgspec

from reach.backend.keys import GROUP_AGENT, RedisType
from reach.backend.memory_backend.channels import Channels
from reach.backend.memory_backend.streams import Fields, Stream
from reach.backend.memory_backend.waiting import WaitingRoom
from reach.clock import Clock, SystemClock
from reach.envelope.ledger import Head, Leg
from reach.errors import BackendError


class WrongType(BackendError):
    """A key holds another type than the step needs; `details["key"]` says which."""

    default_code = "backend.wrong_type"


class Hash(dict[str, bytes]):
    """A Redis hash."""


class ZSet(dict[str, int]):
    """A Redis sorted set: member -> score."""

    def lowest(self, up_to: int, count: int) -> list[str]:
        """ZRANGEBYSCORE -inf `up_to` LIMIT 0 `count`."""
        ripe = ((score, member) for member, score in self.items() if score <= up_to)
        return [member for _, member in heapq.nsmallest(count, ripe)]

    def ranked(self) -> list[str]:
        """ZRANGE 0 -1."""
        return [member for _, member in sorted((score, member) for member, score in self.items())]


class Line(list[str]):
    """A Redis list."""


@dataclass(slots=True)
class MessageRecord:
    """What a partition remembers of one message: msgpack in Redis, here the structs themselves."""

    head: Head
    legs: dict[int, Leg]
    still: bool = False  # no stage of it is called any more, in this step

    def change(self, number: int, **fields: object) -> None:
        """Replace fields of one leg."""
        self.legs[number] = msgspec.structs.replace(self.legs[number], **fields)

    def change_head(self, **fields: object) -> None:
        """Replace fields of the head."""
        self.head = msgspec.structs.replace(self.head, **fields)

    def open_legs(self) -> list[int]:
        """The legs that have no terminal receipt yet."""
        return [number for number, leg in sorted(self.legs.items()) if not leg.finished_at_ms]


Value = Stream | Hash | ZSet | Line | MessageRecord | bytes
_V = TypeVar("_V", Stream, Hash, ZSet, Line, MessageRecord, bytes)


class Store:
    """The keys of one server. `lock` is held for the whole of a step: that is what makes a step atomic, also over threads."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock: Final = clock or SystemClock()
        self.lock: Final = threading.RLock()
        self.room: Final = WaitingRoom()
        self.channels: Final = Channels()
        self._values: dict[str, Value] = {}
        self._expires: dict[str, int] = {}
        self._expiry_queue: list[tuple[int, str]] = []

    def now_ms(self) -> int:
        """TIME: what decides expiry, delay and leases here."""
        return self.clock.wall_ms()

    # ---------------------------------------------------------------- keys

    def keys(self) -> list[str]:
        """Every key that is alive."""
        self.expire()
        return sorted(self._values)

    def exists(self, key: str) -> bool:
        return self._value(key) is not None

    def type_of(self, key: str) -> RedisType | None:
        """What TYPE would say of the same key in Redis; None: no such key."""
        value = self._value(key)
        if isinstance(value, MessageRecord):
            return "hash" if value.head.scope == "all" else "string"
        kinds: dict[type, RedisType] = {Stream: "stream", Hash: "hash", ZSet: "zset", Line: "list", bytes: "string"}
        return None if value is None else kinds[type(value)]

    def expires_at_ms(self, key: str) -> int | None:
        """PEXPIRETIME; None: it stays."""
        return self._expires.get(key) if self.exists(key) else None

    def expire_at(self, key: str, at_ms: int) -> None:
        """PEXPIREAT."""
        if self.exists(key):
            self._expires[key] = at_ms
            heapq.heappush(self._expiry_queue, (at_ms, key))

    def expire(self) -> None:
        """Drop what has outlived its lifetime. Every step does it first, so that nothing piles up unseen."""
        now_ms = self.now_ms()
        while self._expiry_queue and self._expiry_queue[0][0] <= now_ms:
            _, key = heapq.heappop(self._expiry_queue)
            if self._expires.get(key, now_ms + 1) <= now_ms:
                self.delete(key)

    def put(self, key: str, value: Value) -> None:
        """SET: replaces any type; the old lifetime goes."""
        self._values[key] = value
        self._expires.pop(key, None)

    def delete(self, key: str) -> bool:
        """DEL. Who waits for the key is woken, as Redis does for XREADGROUP."""
        self._expires.pop(key, None)
        there = self._values.pop(key, None) is not None
        if there:
            self.room.wake(key)
        return there

    def clear(self) -> None:
        """FLUSHALL."""
        with self.lock:
            self._values.clear()
            self._expires.clear()
            self._expiry_queue.clear()
            self.room.wake_all()

    # ---------------------------------------------------------------- typed values

    def stream(self, key: str) -> Stream | None:
        return self._typed(key, Stream)

    def hash(self, key: str) -> Hash | None:
        return self._typed(key, Hash)

    def zset(self, key: str) -> ZSet | None:
        return self._typed(key, ZSet)

    def line(self, key: str) -> Line | None:
        return self._typed(key, Line)

    def string(self, key: str) -> bytes | None:
        return self._typed(key, bytes)

    def record(self, key: str) -> MessageRecord | None:
        return self._typed(key, MessageRecord)

    def make_hash(self, key: str) -> Hash:
        """The hash, made where it is missing."""
        found = self.hash(key)
        if found is None:
            found = Hash()
            self.put(key, found)
        return found

    def make_zset(self, key: str) -> ZSet:
        """The sorted set, made where it is missing."""
        found = self.zset(key)
        if found is None:
            found = ZSet()
            self.put(key, found)
        return found

    def make_line(self, key: str) -> Line:
        """The list, made where it is missing."""
        found = self.line(key)
        if found is None:
            found = Line()
            self.put(key, found)
        return found

    def make_stream(self, key: str) -> Stream:
        """The stream, made where it is missing (MKSTREAM)."""
        found = self.stream(key)
        if found is None:
            found = Stream()
            self.put(key, found)
        return found

    def clear_wrong(self, key: str, wanted: RedisType) -> None:
        """Delete a key of our own table that holds another type by accident: one bad key must not stop the rest."""
        if self.type_of(key) not in {None, wanted}:
            self.delete(key)

    def drop_empty(self, key: str) -> None:
        """Redis keeps no empty hash, sorted set or list."""
        value = self._value(key)
        if isinstance(value, Hash | ZSet | Line) and not value:
            self.delete(key)

    def append(
        self,
        key: str,
        fields: Fields,
        *,
        make: bool = True,
        mend: bool = True,
        entry_id: str = "*",
        max_entries: int = 0,
    ) -> str | None:
        """XADD, and wake who waits. `make` False is NOMKSTREAM: None when there is no such stream.

        `mend`: a stream that takes no more ids is wound back for it.
        """
        found = self.make_stream(key) if make else self.stream(key)
        if found is None:
            return None
        if mend and entry_id == "*" and found.is_full:
            found.rewind(self.now_ms(), hands=GROUP_AGENT in found.groups)
        new_id = found.add(fields, self.now_ms(), entry_id=entry_id, max_entries=max_entries)
        self.room.wake(key)
        return new_id

    def say(self, channel: str, data: bytes) -> None:
        """SPUBLISH, and wake who listens."""
        self.channels.say(channel, data)
        self.room.wake(channel)

    def _value(self, key: str) -> Value | None:
        expires = self._expires.get(key)
        if expires is not None and expires <= self.now_ms():
            self.delete(key)
        return self._values.get(key)

    def _typed(self, key: str, kind: type[_V]) -> _V | None:
        value = self._value(key)
        if value is None:
            return None
        if not isinstance(value, kind):
            raise WrongType(f"{key} is no {kind.__name__}", details={"key": key, "type": self.type_of(key)})
        return value


class StoreRegistry:
    """The stores of this process by name, so that `memory://x` means the same place for everybody in it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stores: dict[str, Store] = {}

    def get(self, name: str) -> Store:
        """The store of that name, made on first use."""
        with self._lock:
            return self._stores.setdefault(name, Store())

    def drop(self, name: str) -> None:
        """Forget a store, so that the next one of that name starts empty. Backends that have it open keep it."""
        with self._lock:
            self._stores.pop(name, None)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._stores))


STORES: Final = StoreRegistry()
