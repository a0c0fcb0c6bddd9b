"""Time that goes by on a real server: every moment that is stored is moved, in a few round trips, since real time goes by meanwhile."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from reach.envelope.circuit import LISTED, SLOT_MS
from tests.contract.dumps import delivered_later

Command = tuple[Any, ...]

#: how a key is read whose moments are members or fields of it: (type, name of the key) -> command
_READ: Mapping[tuple[str, str], tuple[Any, ...]] = {
    **{("zset", name): ("ZRANGE", 0, -1) for name in ("due", "beats", "met", "room")},
    **{("hash", name): ("HGETALL",) for name in ("health", "tick", "once", "conv", "rate", "m")},
    ("string", "m"): ("GET",),
    ("list", "line"): ("LRANGE", 0, -1),
}


async def pass_time(client: Any, ms: int) -> None:
    """Let `ms` go by for everything that is stored; negative: the clock steps back. `client`: redis-py without any callbacks."""
    keys = await client.execute_command("KEYS", "*")
    # Until all is moved nothing ends: between two looks a key would be gone.
    told = await _all(client, [(what, key) for what in ("PEXPIRETIME", "PERSIST", "TYPE") for key in keys])
    ends = {key: end for key, end in zip(keys, told, strict=False) if end > 0}
    kinds = {key: kind.decode() for key, kind in zip(keys, told[2 * len(keys) :], strict=True)}
    read = [(key, kind, command) for key, kind in kinds.items() if (command := _READ.get((kind, _name(key))))]
    streams = [key for key, kind in kinds.items() if kind == "stream"]
    values = await _all(
        client,
        [(command[0], key, *command[1:]) for key, _, command in read] + [("XINFO", "GROUPS", key) for key in streams],
    )
    changes: list[Command] = []
    for (key, kind, _), value in zip(read, values, strict=False):
        changes += _moved(key, kind, value, ms)
    for key, groups in zip(streams, values[len(read) :], strict=True):
        names = [group[group.index(b"name") + 1] for group in groups if group[group.index(b"pending") + 1]]
        changes += await _pending(client, key, names, ms)
    # Last, since what is written anew stays. A moment that is past ends a key at once.
    changes += [("PEXPIREAT", key, end - ms) for key, end in ends.items()]
    await _all(client, changes)


async def _all(client: Any, commands: Sequence[Command]) -> list[Any]:
    async with client.pipeline(transaction=False) as pipe:
        for command in commands:
            pipe.execute_command(*command)
        return list(await pipe.execute())


def _name(key: bytes) -> str:
    return key.decode().partition("}:")[2].partition(":")[0]


def _moved(key: bytes, kind: str, value: Any, ms: int) -> Iterator[Command]:
    match kind:
        case "zset":
            yield from (("ZINCRBY", key, -ms, member) for member in value)
        case "string":
            if value and (packed := _aged(value, ms)):
                yield ("SET", key, packed)
        case "list":
            marks = [(n, member) for n, member in enumerate(value) if member.startswith(b"@")]
            yield from (("LSET", key, n, f"@{int(member[1:]) - ms}") for n, member in marks)
        case _:
            pairs = zip(value[::2], value[1::2], strict=True)
            moved = [part for field, old in pairs for part in (field, _field(_name(key), field, old, ms))]
            if moved:
                yield ("HSET", key, *moved)


def _field(name: str, field: bytes, value: bytes, ms: int) -> bytes:
    if name == "m":
        return _aged(value, ms) or value
    if name == "health":
        return value if field == LISTED.encode() else _aged_row(value, ms)
    # Of a guard only the end of its lease is a moment, of a bucket its age, of a conversation the last number of a pair.
    known = {"tick": True, "once": field == b"u", "rate": field == b"at", "conv": field.startswith(b"p:")}
    if not known[name]:
        return value
    *others, moment = value.split() or [b""]
    return b" ".join([*others, b"%d" % (int(moment) - ms)])


async def _pending(client: Any, key: bytes, groups: Sequence[bytes], ms: int) -> list[Command]:
    changes: list[Command] = []
    for name in groups:
        (seconds, micros), rows = await _all(client, [("TIME",), ("XPENDING", key, name, "-", "+", 1000)])
        now_ms = int(seconds) * 1000 + int(micros) // 1000
        # Who is idle for no time may have been delivered in the future.
        later = [entry_id.decode() for entry_id, _, idle_ms, _ in rows if ms < 0 or not idle_ms]
        if later:
            moved = delivered_later(await client.execute_command("DUMP", key), later, -ms, now_ms)
            await client.execute_command("RESTORE", key, 0, moved, "REPLACE")
        for entry_id, consumer, idle_ms, count in rows:
            if entry_id.decode() not in later:
                given = ("TIME", now_ms - idle_ms - ms, "RETRYCOUNT", count, "JUSTID")
                changes.append(("XCLAIM", key, name, consumer, 0, entry_id, *given))
    return changes


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
