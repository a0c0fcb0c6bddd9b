"""Where a backend under test keeps its bytes, and what a test may do to that place behind the backend's back."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import redis.asyncio

from reach.backend import open_backend
from reach.backend.keys import KeySpace
from reach.backend.port import Backend
from tests.contract import aging

ENV = "test"
KEYS = KeySpace(ENV)


class Pending(NamedTuple):
    """One row of XPENDING."""

    id: str
    consumer: str
    idle_ms: int
    deliveries: int


class Snapshot(NamedTuple):
    """What was stored, and when. `values` are the place's own."""

    values: Any
    at_ms: int


class Place(Protocol):
    """What the tests need beside the port. Keys are whole names; entries are (id, fields)."""

    kind: str
    url: str

    async def connect(self) -> Backend:
        """One more backend on the same place, opened; it is closed with the place."""
        ...

    async def close(self) -> None: ...

    async def pass_time(self, ms: int) -> None:
        """Let `ms` go by for everything that is stored: moments, leases, lifetimes. Negative: the clock steps back."""
        ...

    async def forget_all(self) -> None:
        """FLUSHALL."""
        ...

    async def remember(self) -> Snapshot:
        """Everything, as a disk would have it."""
        ...

    async def rewind(self, snapshot: Snapshot) -> None:
        """A restart that has lost all that was written since; the clock has gone on."""
        ...

    async def delete(self, key: str) -> None: ...

    async def spoil(self, key: str) -> None:
        """Put a value of the wrong type there."""
        ...

    async def keys(self) -> list[str]: ...

    async def type_of(self, key: str) -> str:
        """As TYPE says it; "none" where there is no such key."""
        ...

    async def ttl_ms(self, key: str) -> int:
        """As PTTL says it: -1 stays, -2 is not there."""
        ...

    async def size(self, key: str) -> int:
        """As HLEN says it."""
        ...

    async def put_fields(self, key: str, fields: Mapping[str, bytes]) -> None:
        """HSET by hand."""
        ...

    async def append(self, key: str, fields: Mapping[str, bytes], entry_id: str = "*") -> str:
        """XADD by hand."""
        ...

    async def remove(self, key: str, entry_id: str) -> None:
        """XDEL by hand."""
        ...

    async def entries(self, key: str) -> list[tuple[str, dict[bytes, bytes]]]:
        """XRANGE - +; empty where there is no such stream."""
        ...

    async def members(self, key: str) -> list[str]:
        """LRANGE 0 -1; empty where there is no such list."""
        ...

    async def scores(self, key: str) -> dict[str, int]:
        """Of a sorted set; empty where there is none."""
        ...

    async def put_score(self, key: str, member: str, score: int) -> None:
        """ZADD."""
        ...

    async def push(self, key: str, *members: str) -> None:
        """RPUSH by hand."""
        ...

    async def pending(self, key: str, group: str) -> list[Pending]: ...

    async def read_plain(self, key: str, group: str, consumer: str, count: int = 1) -> list[str]:
        """XREADGROUP > by a reader without scripts; the ids."""
        ...

    async def drop_group(self, key: str, group: str) -> None:
        """XGROUP DESTROY."""
        ...

    async def say(self, channel: str, data: bytes) -> None:
        """SPUBLISH by hand."""
        ...

    async def due(self) -> dict[str, int]:
        """The members of partition 0's due set and their moments."""
        ...

    async def acknowledge(self, key: str, group: str, entry_id: str) -> None:
        """XACK by hand."""
        ...

    async def lose_leg(self, key: str, leg: int) -> None:
        """Take one leg out of a broadcast's record."""
        ...

    async def fields(self, key: str) -> dict[bytes, bytes]:
        """HGETALL."""
        ...

    async def set_field(self, key: str, field: str, value: bytes) -> None:
        """HSET by hand."""
        ...

    async def consumers(self, key: str, group: str) -> set[str]:
        """The names that XINFO CONSUMERS gives."""
        ...


class RedisPlace:
    """A real server. Time is moved by rewriting every moment that is stored."""

    def __init__(self, kind: str, url: str) -> None:
        self.kind, self.url = kind, url
        # redis-py types every reply as anything at all; here it is bytes in, bytes out.
        self.raw: Any = redis.asyncio.Redis.from_url(url, protocol=2)
        # redis-py 8 cannot read what XCLAIM ... JUSTID answers; here replies stay as they are.
        self._plain: Any = redis.asyncio.Redis.from_url(url, protocol=2)
        self._plain.response_callbacks.clear()
        self._backends: list[Backend] = []
        self._passed_ms = 0

    async def connect(self) -> Backend:
        backend = open_backend(self.url, env=ENV)
        self._backends.append(backend)
        await backend.open()
        return backend

    async def close(self) -> None:
        for backend in self._backends:
            await backend.close()
        await self.raw.aclose()
        await self._plain.aclose()

    async def pass_time(self, ms: int) -> None:
        self._passed_ms += ms
        await aging.pass_time(self._plain, ms)

    async def forget_all(self) -> None:
        await self.raw.flushall()

    async def remember(self) -> Snapshot:
        keys = await self.raw.keys("*")
        return Snapshot([(k, await self.raw.pttl(k), await self.raw.dump(k)) for k in keys], self._passed_ms)

    async def rewind(self, snapshot: Snapshot) -> None:
        last = await self.raw.time()
        await self.raw.flushall()
        for key, ttl_ms, dumped in snapshot.values:
            await self.raw.restore(key, max(ttl_ms, 0), dumped)
        passed_ms = self._passed_ms - snapshot.at_ms
        await self.pass_time(passed_ms)
        self._passed_ms -= passed_ms
        while (await self.raw.time())[1] // 1000 == last[1] // 1000:  # what comes now has ids of its own
            continue

    async def delete(self, key: str) -> None:
        await self.raw.delete(key)

    async def spoil(self, key: str) -> None:
        await self.raw.delete(key)
        await self.raw.sadd(key, "not what it should be")

    async def keys(self) -> list[str]:
        return sorted(key.decode() for key in await self.raw.keys("*"))

    async def type_of(self, key: str) -> str:
        return str((await self.raw.type(key)).decode())

    async def ttl_ms(self, key: str) -> int:
        return int(await self.raw.pttl(key))

    async def size(self, key: str) -> int:
        return int(await self.raw.hlen(key))

    async def put_fields(self, key: str, fields: Mapping[str, bytes]) -> None:
        await self.raw.hset(key, mapping=dict(fields))

    async def append(self, key: str, fields: Mapping[str, bytes], entry_id: str = "*") -> str:
        flat = [part for pair in fields.items() for part in pair]
        return str((await self.raw.execute_command("XADD", key, entry_id, *flat)).decode())

    async def remove(self, key: str, entry_id: str) -> None:
        await self.raw.xdel(key, entry_id)

    async def entries(self, key: str) -> list[tuple[str, dict[bytes, bytes]]]:
        return [(entry_id.decode(), fields) for entry_id, fields in await self.raw.xrange(key)]

    async def members(self, key: str) -> list[str]:
        return [member.decode() for member in await self.raw.lrange(key, 0, -1)]

    async def scores(self, key: str) -> dict[str, int]:
        return {member.decode(): int(score) for member, score in await self.raw.zrange(key, 0, -1, withscores=True)}

    async def put_score(self, key: str, member: str, score: int) -> None:
        await self.raw.zadd(key, {member: score})

    async def push(self, key: str, *members: str) -> None:
        await self.raw.rpush(key, *members)

    async def pending(self, key: str, group: str) -> list[Pending]:
        return [
            Pending(
                row["message_id"].decode(),
                row["consumer"].decode(),
                row["time_since_delivered"],
                row["times_delivered"],
            )
            for row in await self.raw.xpending_range(key, group, "-", "+", 1000)
        ]

    async def read_plain(self, key: str, group: str, consumer: str, count: int = 1) -> list[str]:
        reply = await self.raw.xreadgroup(group, consumer, {key: ">"}, count=count)
        return [entry_id.decode() for _, entries in reply for entry_id, _ in entries]

    async def drop_group(self, key: str, group: str) -> None:
        await self.raw.xgroup_destroy(key, group)

    async def say(self, channel: str, data: bytes) -> None:
        await self.raw.execute_command("SPUBLISH", channel, data)

    async def due(self) -> dict[str, int]:
        return {m.decode(): int(at) for m, at in await self.raw.zrange(KEYS.due(0), 0, -1, withscores=True)}

    async def acknowledge(self, key: str, group: str, entry_id: str) -> None:
        await self.raw.xack(key, group, entry_id)

    async def lose_leg(self, key: str, leg: int) -> None:
        await self.raw.hdel(key, leg)

    async def fields(self, key: str) -> dict[bytes, bytes]:
        return dict(await self.raw.hgetall(key))

    async def set_field(self, key: str, field: str, value: bytes) -> None:
        await self.raw.hset(key, field, value)

    async def consumers(self, key: str, group: str) -> set[str]:
        return {row["name"].decode() for row in await self.raw.xinfo_consumers(key, group)}
