"""The memory backend as a place: its store, with a wall clock that the test moves."""

import copy
from collections.abc import Mapping

from reach.backend.memory_backend import MemoryBackend, Store
from reach.backend.memory_backend.store import Hash
from reach.backend.memory_backend.streams import Stream
from reach.backend.port import Backend
from reach.clock import SystemClock
from tests.contract.places import ENV, KEYS, Pending, Snapshot


class AheadClock(SystemClock):
    """The real clock, ahead by what the test has let pass. Only waiting takes real time."""

    def __init__(self) -> None:
        self.ahead_ms = 0

    def wall_ms(self) -> int:
        return super().wall_ms() + self.ahead_ms


class MemoryPlace:
    """One store of its own."""

    kind = "memory"
    url = "memory://"

    def __init__(self) -> None:
        self._clock = AheadClock()
        self._store = Store(self._clock)
        self._backends: list[MemoryBackend] = []

    async def connect(self) -> Backend:
        backend = MemoryBackend(env=ENV, store=self._store)
        self._backends.append(backend)
        await backend.open()
        return backend

    async def close(self) -> None:
        for backend in self._backends:
            await backend.close()

    async def pass_time(self, ms: int) -> None:
        self._clock.ahead_ms += ms

    async def forget_all(self) -> None:
        self._store.clear()

    async def remember(self) -> Snapshot:
        stored = (self._store._values, self._store._expires, self._store._expiry_queue)
        return Snapshot(copy.deepcopy(stored), self._store.now_ms())

    async def rewind(self, snapshot: Snapshot) -> None:
        self._store.clear()
        values, expires, queue = copy.deepcopy(snapshot.values)
        self._store._values.update(values)
        self._store._expires.update(expires)
        self._store._expiry_queue.extend(queue)
        await self.pass_time(1)  # what comes now has ids of its own

    async def delete(self, key: str) -> None:
        self._store.delete(key)

    async def spoil(self, key: str) -> None:
        if key.startswith(KEYS.conversation("")):
            self._store.put(key, b"not what it should be")
            return
        hashes = {KEYS.agents(), KEYS.load(), KEYS.meta(), KEYS.routes(), KEYS.types(), KEYS.tick(0)}
        hashes |= {KEYS.share(0, "a1"), KEYS.share(0, "a2"), KEYS.rate("a1")}
        hashes |= {KEYS.health(0), KEYS.circuit(), KEYS.rules()}
        self._store.put(key, b"not what it should be" if key in hashes else Hash({"not": b"what it should be"}))

    async def keys(self) -> list[str]:
        return self._store.keys()

    async def type_of(self, key: str) -> str:
        return self._store.type_of(key) or "none"

    async def ttl_ms(self, key: str) -> int:
        if not self._store.exists(key):
            return -2
        at_ms = self._store.expires_at_ms(key)
        return -1 if at_ms is None else at_ms - self._store.now_ms()

    async def size(self, key: str) -> int:
        return len(self._store.hash(key) or ())

    async def put_fields(self, key: str, fields: Mapping[str, bytes]) -> None:
        self._store.make_hash(key).update(fields)

    async def append(self, key: str, fields: Mapping[str, bytes], entry_id: str = "*") -> str:
        raw = {name.encode(): value for name, value in fields.items()}
        return self._store.append(key, raw, mend=False, entry_id=entry_id) or ""

    async def remove(self, key: str, entry_id: str) -> None:
        self._stream(key).delete([entry_id])

    async def entries(self, key: str) -> list[tuple[str, dict[bytes, bytes]]]:
        return list(self._stream(key).all()) if self._store.exists(key) else []

    async def members(self, key: str) -> list[str]:
        return list(self._store.line(key) or [])

    async def scores(self, key: str) -> dict[str, int]:
        return dict(self._store.zset(key) or {})

    async def put_score(self, key: str, member: str, score: int) -> None:
        self._store.make_zset(key)[member] = score

    async def push(self, key: str, *members: str) -> None:
        self._store.make_line(key).extend(members)

    async def pending(self, key: str, group: str) -> list[Pending]:
        found = self._stream(key).group(group)
        now_ms = self._store.now_ms()
        return [
            Pending(entry_id, row.consumer, row.idle_ms(now_ms), row.deliveries)
            for entry_id, row in (found.all_pending() if found else [])
        ]

    async def read_plain(self, key: str, group: str, consumer: str, count: int = 1) -> list[str]:
        found = self._stream(key).group(group)
        assert found is not None
        return [entry_id for entry_id, _ in found.read(consumer, count, self._store.now_ms())]

    async def drop_group(self, key: str, group: str) -> None:
        self._stream(key).groups.pop(group, None)

    async def say(self, channel: str, data: bytes) -> None:
        self._store.say(channel, data)

    async def due(self) -> dict[str, int]:
        return dict(self._store.zset(KEYS.due(0)) or {})

    async def acknowledge(self, key: str, group: str, entry_id: str) -> None:
        found = self._stream(key).group(group)
        assert found is not None
        found.ack(entry_id)

    async def lose_leg(self, key: str, leg: int) -> None:
        record = self._store.record(key)
        assert record is not None
        del record.legs[leg]

    async def consumers(self, key: str, group: str) -> set[str]:
        found = self._stream(key).group(group)
        assert found is not None
        return set(found.consumers)

    async def fields(self, key: str) -> dict[bytes, bytes]:
        return {field.encode(): value for field, value in (self._store.hash(key) or {}).items()}

    async def set_field(self, key: str, field: str, value: bytes) -> None:
        self._store.make_hash(key)[field] = value

    def _stream(self, key: str) -> Stream:
        found = self._store.stream(key)
        assert found is not None, f"no stream {key}"
        return found
