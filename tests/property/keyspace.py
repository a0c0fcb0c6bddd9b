"""Everything that a backend has stored, in one form: what a test compares to say that two of them are in the same state."""

from collections.abc import Sequence
from typing import Any

import msgspec

from reach.backend.memory_backend import Store
from reach.backend.memory_backend.store import Hash, Line, MessageRecord, ZSet
from reach.backend.memory_backend.streams import Stream, format_id
from reach.envelope.ledger import Head, Leg
from tests.still_server import CLOCK, SEEN

#: key -> (type, end of its lifetime or None, value)
Keyspace = dict[str, tuple[str, int | None, object]]

_head, _leg = msgspec.msgpack.Decoder(Head), msgspec.msgpack.Decoder(Leg)
_parts = msgspec.msgpack.Decoder(list[msgspec.Raw])

#: every key in one round trip and one moment. Lifetimes as tests/still_server.py keeps them: a hundred years ahead
ALL = """
local found = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  local kind, value = redis.call('TYPE', key).ok, ''
  if kind == 'string' then value = redis.call('GET', key)
  elseif kind == 'hash' then value = redis.call('HGETALL', key)
  elseif kind == 'list' then value = redis.call('LRANGE', key, 0, -1)
  elseif kind == 'zset' then value = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  elseif kind == 'stream' then value = redis.call('XINFO', 'STREAM', key, 'FULL', 'COUNT', 0) end
  local at = redis.call('PEXPIRETIME', key)
  found[#found + 1] = {key, kind, at >= 0 and at - 3155760000000 or at, value}
end
return found
"""


def of_server(reply: Sequence[Any]) -> Keyspace:
    """What the script `ALL` has answered."""
    found: Keyspace = {}
    for raw_key, kind, at_ms, value in reply:
        key = raw_key.decode()
        if key not in {CLOCK, SEEN}:
            found[key] = (kind.decode(), None if at_ms < 0 else at_ms, _server_value(key, kind.decode(), value))
    return found


def of_memory(store: Store) -> Keyspace:
    """The same of a store."""
    return {
        key: (str(store.type_of(key)), store.expires_at_ms(key), _memory_value(store._value(key)))
        for key in sorted(store.keys())
    }


def _server_value(key: str, kind: str, value: Any) -> object:
    record = "}:m:" in key
    if kind == "stream":
        return _server_stream(value)
    if kind == "hash":
        pairs = dict(zip(value[::2], value[1::2], strict=True))
        if record and b"h" in pairs:
            return _head.decode(pairs.pop(b"h")), {int(n): _leg.decode(packed) for n, packed in pairs.items()}
        return {name.decode(): each for name, each in pairs.items()}
    if kind == "list":
        return [member.decode() for member in value]
    if kind == "zset":
        return {name.decode(): int(float(at)) for name, at in zip(value[::2], value[1::2], strict=True)}
    if record:
        try:
            head, *legs = _parts.decode(value)
            return _head.decode(head), {n: _leg.decode(packed) for n, packed in enumerate(legs)}
        except msgspec.MsgspecError:
            return value  # spoilt
    return value


def _server_stream(value: list[Any]) -> object:
    info = dict(zip(value[::2], value[1::2], strict=True))
    groups = {}
    for flat in info[b"groups"]:
        group = dict(zip(flat[::2], flat[1::2], strict=True))
        rows = group[b"pel"] if b"pel" in group else group[b"pending"]
        pending = [(i.decode(), name.decode(), at_ms, count) for i, name, at_ms, count in rows]
        groups[group[b"name"].decode()] = (group[b"last-delivered-id"].decode(), pending)
    entries = [(i.decode(), dict(zip(flat[::2], flat[1::2], strict=True))) for i, flat in info[b"entries"]]
    return {"last": info[b"last-generated-id"].decode(), "entries": entries, "groups": _read(groups)}


def _read(groups: dict[str, tuple[str, list[Any]]]) -> object:
    """Without those of which nobody has got anything: whether one is made with its stream or by its first reader shows nowhere.

    Consumers are known by what is pending to them: Redis 7.0 makes one when it is given something, later servers when it asks.
    """
    return {name: group for name, group in groups.items() if group != ("0-0", [])}


def _memory_value(value: object) -> object:
    if isinstance(value, MessageRecord):
        return value.head, dict(value.legs)
    if isinstance(value, Hash | ZSet):
        return dict(value)
    if isinstance(value, Line):
        return list(value)
    if isinstance(value, Stream):
        groups = {
            name: (
                format_id(group.last_delivered),
                [(i, row.consumer, row.delivered_at_ms, row.deliveries) for i, row in group.all_pending()],
            )
            for name, group in value.groups.items()
        }
        return {"last": format_id(value.last_id), "entries": list(value.all()), "groups": _read(groups)}
    return value
