"""A real server whose clock is the test's: it stands still until the test moves it, to the millisecond and as far as you like.

No server lets anybody set its clock. So whatever a command says of time is said anew on the way, in scripts and outside of them: TIME
tells the test's moment, entries get ids of it, deliveries are claimed back to it, and lifetimes end when the test says so. All else is
the product's own commands and scripts, run by the server. Readers that block are not carried over: ask them with block_ms 0.
"""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from reach.backend.port import Backend
from reach.backend.redis_backend import RedisBackend
from reach.backend.scripts import all_scripts
from reach.clock import SystemClock
from tests.contract.places import ENV, Pending, RedisPlace

CLOCK, SEEN = "clock", "clock:seen"

#: in front of every script: `redis` as the script knows it, by the clock of the test
_PRELUDE = """
local redis = (function(real)
  local now = tonumber(real.call('GET', 'clock'))
  local BEYOND = 3155760000000 -- lifetimes are kept a hundred years ahead, so that the server ends none of them
  local on = {}
  local function real_ms()
    local t = real.call('TIME')
    return t[1] * 1000 + math.floor(t[2] / 1000)
  end
  local function seen(key, group, consumer) real.call('HSET', 'clock:seen', key .. '|' .. group .. '|' .. consumer, now) end
  local function claim_back(key, group, consumer, ids)
    for i = 1, #ids, 500 do
      local a = {}
      for k = i, math.min(i + 499, #ids) do a[#a + 1] = ids[k] end
      a[#a + 1], a[#a + 2], a[#a + 3] = 'TIME', now, 'JUSTID'
      real.call('XCLAIM', key, group, consumer, 0, unpack(a))
    end
  end
  local function ids_of(entries)
    local ids = {}
    for _, entry in ipairs(entries) do if entry and entry[2] then ids[#ids + 1] = entry[1] end end -- those that have a body
    return ids
  end
  local function expire_at(key, at, ...)
    if at <= now then return real.pcall('DEL', key) end
    return real.pcall('PEXPIREAT', key, at + BEYOND, ...)
  end
  local function ends(key)
    local at = real.pcall('PEXPIRETIME', key)
    return type(at) == 'number' and at >= 0 and at - BEYOND or at
  end
  function on.TIME() return {tostring(math.floor(now / 1000)), tostring(now % 1000 * 1000)} end
  function on.PEXPIREAT(key, at, ...) return expire_at(key, tonumber(at), ...) end
  function on.PEXPIRE(key, ms, ...) return expire_at(key, now + ms, ...) end
  on.PEXPIRETIME = ends
  function on.PTTL(key)
    local at = ends(key)
    return type(at) == 'number' and at >= 0 and at - now or at
  end
  function on.SET(...)
    local a = {...}
    for i = 3, #a - 1 do
      if a[i] == 'PX' or a[i] == 'PXAT' then
        local at = a[i] == 'PX' and now + a[i + 1] or tonumber(a[i + 1])
        if at <= now then return real.pcall('DEL', a[1]) end
        a[i], a[i + 1] = 'PXAT', at + BEYOND
        break
      end
    end
    return real.pcall('SET', unpack(a))
  end
  function on.XADD(...)
    local a, i = {...}, 2
    while a[i] == 'NOMKSTREAM' or a[i] == 'MAXLEN' do
      if a[i] == 'MAXLEN' then i = i + ((a[i + 1] == '~' or a[i + 1] == '=') and 2 or 1) end
      i = i + 1
    end
    if a[i] ~= '*' then return real.pcall('XADD', unpack(a)) end
    a[i] = now .. '-*'
    local v = real.pcall('XADD', unpack(a))
    if type(v) ~= 'table' or not v.err or not string.find(v.err, 'equal or smaller', 1, true) then return v end
    local info = real.call('XINFO', 'STREAM', a[1])
    for k = 1, #info, 2 do if info[k] == 'last-generated-id' then a[i] = string.match(info[k + 1], '^%d+') .. '-*' end end
    v = real.pcall('XADD', unpack(a))
    if type(v) == 'table' and v.err then return {err = 'ERR The stream has exhausted the last possible ID'} end
    return v
  end
  function on.XREADGROUP(...)
    local a = {...}
    local first = 4
    while a[first - 1] ~= 'STREAMS' do first = first + 1 end
    local v = real.pcall('XREADGROUP', unpack(a))
    if type(v) == 'table' and v.err then return v end
    for i = first, first + (#a - first + 1) / 2 - 1 do seen(a[i], a[2], a[3]) end
    for _, read in ipairs(v or {}) do claim_back(read[1], a[2], a[3], ids_of(read[2])) end
    return v
  end
  function on.XCLAIM(key, group, consumer, idle, ...)
    local given, a, at, i = {...}, {}, now, 1
    while i <= #given do
      if given[i] == 'IDLE' then
        at, i = now - given[i + 1], i + 1
      else
        a[#a + 1] = given[i]
      end
      i = i + 1
    end
    a[#a + 1], a[#a + 2] = 'TIME', at
    seen(key, group, consumer)
    return real.pcall('XCLAIM', key, group, consumer, tonumber(idle) == 0 and 0 or idle + real_ms() - now, unpack(a))
  end
  function on.XAUTOCLAIM(key, group, consumer, idle, ...)
    local least = tonumber(idle) == 0 and 0 or idle + real_ms() - now
    local v = real.pcall('XAUTOCLAIM', key, group, consumer, least, ...)
    if v.err then return v end
    seen(key, group, consumer)
    claim_back(key, group, consumer, ids_of(v[2]))
    return v
  end
  function on.XPENDING(key, group, ...)
    local a = {...}
    if #a == 0 then return real.pcall('XPENDING', key, group) end
    local idle = a[1] == 'IDLE' and tonumber(a[2])
    local ahead, v
    repeat -- until no millisecond has passed meanwhile
      ahead = real_ms() - now
      if idle then a[2] = idle + ahead end
      v = real.pcall('XPENDING', key, group, unpack(a))
    until real_ms() - now == ahead
    if not v.err then for _, row in ipairs(v) do row[3] = math.max(row[3] - ahead, 0) end end
    return v
  end
  function on.XINFO(what, key, group)
    local v = real.pcall('XINFO', what, key, group)
    if what ~= 'CONSUMERS' or v.err then return v end
    for _, row in ipairs(v) do
      local name
      for i = 1, #row, 2 do if row[i] == 'name' then name = row[i + 1] end end
      local at = tonumber(real.call('HGET', 'clock:seen', key .. '|' .. group .. '|' .. name) or now)
      for i = 1, #row, 2 do if row[i] == 'idle' then row[i + 1] = math.max(now - at, 0) end end
    end
    return v
  end
  local function by_clock(raises)
    local plain = raises and real.call or real.pcall
    return function(command, ...)
      local other = on[command]
      if not other or command == 'XINFO' and select('#', ...) < 3 then return plain(command, ...) end
      local v = other(...)
      if raises and type(v) == 'table' and v.err then error(v) end
      return v
    end
  end
  return setmetatable({call = by_clock(true), pcall = by_clock(false)}, {__index = real})
end)(redis)
"""

_ONE = f"#!lua flags=allow-oom\n{_PRELUDE}\nreturn redis.pcall(unpack(ARGV))\n"

#: moves the clock, and ends the lifetimes that are over
_MOVE = """
redis.call('SET', 'clock', ARGV[1])
for _, key in ipairs(redis.call('KEYS', '*')) do
  local at = redis.call('PEXPIRETIME', key)
  if at >= 0 and at - 3155760000000 <= tonumber(ARGV[1]) then redis.call('DEL', key) end
end
"""

_OF_TIME = frozenset(
    {"TIME", "SET", "PTTL", "PEXPIRE", "PEXPIREAT", "XADD", "XREADGROUP", "XCLAIM", "XAUTOCLAIM", "XPENDING"}
)


def _sha(text: str) -> str:
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


def _by_clock(text: str) -> str:
    first, _, rest = text.partition("\n")
    return f"{first}\n{_PRELUDE}\n{rest}"


_TEXTS = {script.sha: _by_clock(script.text) for script in all_scripts().values()}
_SHAS = {sha: _sha(text) for sha, text in _TEXTS.items()}
_BY_TEXT = {script.text: _TEXTS[script.sha] for script in all_scripts().values()}


def _said_anew(command: Sequence[Any]) -> list[Any]:
    """A command of the product, as the server has to hear it."""
    verb = command[0]
    if verb == "EVALSHA":
        return [verb, _SHAS[command[1]], *command[2:]]
    if verb == "EVAL":
        return [verb, _BY_TEXT[command[1]], *command[2:]]
    if verb not in _OF_TIME:
        return list(command)
    assert "BLOCK" not in command, "on a still server nobody may wait"
    return ["EVALSHA", _sha(_ONE), 0, *command]


class _Hasty(SystemClock):
    """For what a backend waits by itself before it tries again: nobody else is there who would need the time."""

    async def sleep(self, ms: int) -> None:
        await asyncio.sleep(0)


class StillPlace(RedisPlace):
    """A server's place whose clock is moved by `move_to`. `connect` gives backends that live by it."""

    def __init__(self, kind: str, url: str, now_ms: int) -> None:
        super().__init__(kind, url)
        self._now_ms = now_ms

    async def start(self) -> None:
        """Empty the server, and stop its clock."""
        await self._plain.execute_command("SCRIPT", "LOAD", _ONE)
        await self.forget_all()

    async def close(self) -> None:
        await self.raw.delete(CLOCK, SEEN)
        await super().close()

    def backend(self) -> Backend:
        """A new backend, not yet open; its caller closes it."""
        backend = RedisBackend(self.url, env=ENV, clock=_Hasty())
        link = backend._link
        exchange = link._exchange

        async def still(pool: Any, commands: Sequence[Sequence[Any]], block_ms: int = 0) -> Any:
            return await exchange(pool, [_said_anew(command) for command in commands], block_ms)

        link._exchange = still  # type: ignore[method-assign]
        return backend

    async def connect(self) -> Backend:
        backend = self.backend()
        self._backends.append(backend)
        await backend.open()
        return backend

    async def move_to(self, now_ms: int) -> None:
        """It is this moment now (Unix ms)."""
        self._now_ms = now_ms
        await self.raw.eval(_MOVE, 0, now_ms)

    async def pass_time(self, ms: int) -> None:
        await self.move_to(self._now_ms + ms)

    async def forget_all(self) -> None:
        await super().forget_all()
        await self.move_to(self._now_ms)

    async def keys(self) -> list[str]:
        return [key for key in await super().keys() if key not in {CLOCK, SEEN}]

    async def expires_at_ms(self, key: str) -> int | None:
        """When its lifetime ends; None: it stays."""
        left_ms = await self.ttl_ms(key)
        return None if left_ms < 0 else self._now_ms + left_ms

    async def ttl_ms(self, key: str) -> int:
        return int(await self._one("PTTL", key))

    async def append(self, key: str, fields: Mapping[str, bytes], entry_id: str = "*") -> str:
        made = await self._one("XADD", key, entry_id, *[part for pair in fields.items() for part in pair])
        return str(made.decode())

    async def pending(self, key: str, group: str) -> list[Pending]:
        rows = await self._one("XPENDING", key, group, "-", "+", 1000)
        return [Pending(row[0].decode(), row[1].decode(), row[2], row[3]) for row in rows]

    async def read_plain(self, key: str, group: str, consumer: str, count: int = 1) -> list[str]:
        reply = await self._one("XREADGROUP", "GROUP", group, consumer, "COUNT", count, "STREAMS", key, ">")
        return [entry[0].decode() for _, entries in reply or () for entry in entries]

    async def _one(self, *command: Any) -> Any:
        return await self._plain.execute_command("EVALSHA", _sha(_ONE), 0, *command)
