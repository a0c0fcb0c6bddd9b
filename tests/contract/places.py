"""Where a backend under test keeps its bytes, and what a test may do to that place behind the backend's back."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec
import redis.asyncio

from reach.backend import open_backend
from reach.backend.keys import KeySpace
from reach.backend.port import Backend
from reach.envelope.circuit import LISTED, SLOT_MS
from tests.contract.dumps import delivered_later

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
        for raw_key in await self.raw.keys("*"):
            key = raw_key.decode()
            await self._age(key, (await self.raw.type(key)).decode(), ms)
            ttl = await self.raw.pttl(key)
            if ttl < 0:
                continue
            if ttl > ms:
                await self.raw.pexpire(key, ttl - ms)
            else:
                await self.raw.delete(key)

    async def _age(self, key: str, kind: str, ms: int) -> None:
        name = key.partition("}:")[2].partition(":")[0]
        match kind, name:
            case "zset", ("due" | "beats" | "met" | "room"):
                for member, _ in await self.raw.zrange(key, 0, -1, withscores=True):
                    await self.raw.zincrby(key, -ms, member)
            case "hash", "health":
                await self._age_health(key, ms)
            case "hash", ("tick" | "once" | "conv" | "rate"):
                await self._age_fields(key, name, ms)
            case "string", "m":
                if packed := _aged(await self.raw.get(key), ms):
                    await self.raw.set(key, packed, keepttl=True)
            case "hash", "m":
                for field, value in (await self.raw.hgetall(key)).items():
                    await self.raw.hset(key, field, _aged(value, ms) or value)
            case "list", "line":
                await self._age_marks(key, ms)
            case "stream", _:
                await self._age_pending(key, ms)

    async def _age_marks(self, key: str, ms: int) -> None:
        for n, member in enumerate(await self.members(key)):
            if member.startswith("@"):
                await self.raw.lset(key, n, f"@{int(member[1:]) - ms}")

    async def _age_fields(self, key: str, name: str, ms: int) -> None:
        for field, value in (await self.raw.hgetall(key)).items():
            *others, moment = value.split() or [b""]
            # Of a guard only the end of its lease is a moment, of a bucket its age, of a conversation the last number of a pair.
            known = {"tick": True, "once": field == b"u", "rate": field == b"at", "conv": field.startswith(b"p:")}
            if known[name]:
                await self.raw.hset(key, field, b" ".join([*others, b"%d" % (int(moment) - ms)]))

    async def _age_health(self, key: str, ms: int) -> None:
        for field, value in (await self.raw.hgetall(key)).items():
            if field != LISTED.encode():
                await self.raw.hset(key, field, _aged_row(value, ms))

    async def _age_pending(self, key: str, ms: int) -> None:
        for group in await self.raw.xinfo_groups(key):
            name = group["name"].decode()
            rows = await self.pending(key, name)
            # Who is idle for no time may have been delivered in the future.
            later = [row.id for row in rows if ms < 0 or not row.idle_ms]
            if later:
                seconds, micros = await self.raw.time()
                now_ms, ttl_ms = seconds * 1000 + micros // 1000, max(await self.raw.pttl(key), 0)
                dump = delivered_later(await self.raw.dump(key), later, -ms, now_ms)
                await self.raw.restore(key, ttl_ms, dump, replace=True)
            for row in rows:
                if row.id in later:
                    continue
                idle, count = row.idle_ms + ms, row.deliveries
                await self._plain.execute_command(
                    *("XCLAIM", key, name, row.consumer, 0, row.id, "IDLE", idle, "RETRYCOUNT", count, "JUSTID")
                )

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


def _aged_row(row: bytes, ms: int) -> bytes:
    """The health of an agent, if it had been written `ms` earlier; its slots to 5 s."""
    run, opened_at_ms, died_at_ms, probe, slots = row.decode().split(" ")
    moments = [str(int(at_ms) and int(at_ms) - ms) for at_ms in (opened_at_ms, died_at_ms)]
    parts = [slot.partition(":") for slot in slots.split(",") if slot != "-"]
    moved = [f"{int(number) - round(ms / SLOT_MS)}:{counts}" for number, _, counts in parts]
    return " ".join([run, *moments, probe, ",".join(moved) or "-"]).encode()


_MOMENTS = {"at", "fa", "ta", "xa", "nb", "q", "tk", "al", "d", "u", "fi"}


def _aged(packed: bytes, ms: int) -> bytes:
    """A packed record, or a part of one, as if it had been written `ms` earlier."""
    value = msgspec.msgpack.decode(packed)
    parts: Sequence[dict[str, Any]] = value if isinstance(value, list) else [value]
    for part in parts:
        for name in _MOMENTS & part.keys():
            if part[name]:
                part[name] -= ms
    return msgspec.msgpack.encode(value)
