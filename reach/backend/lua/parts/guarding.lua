-- The guard of one effect: a hash of its owner o, the end of his lease u, and once it is over the value r. Needs start, record.
local ONCE_MS = 600000 -- as in reach/backend/bounds.py

local function guard_of(m, name)
  local key = P .. 'once:' .. m .. ':' .. name
  local kind = call('TYPE', key).ok
  if kind ~= 'hash' and kind ~= 'none' then call('DEL', key) end
  local g = call('HMGET', key, 'o', 'u', 'r')
  return {key = key, owner = g[1], ends = number(g[2]) or 0, value = g[3]}
end

-- As long as the record and then some: a round that is opened again at the record's end must still find it. Never shorter than before.
local function outlive(key, r)
  local last = r and not r.head.tomb and expires(r.head) or now
  call('PEXPIREAT', key, math.max(last + ONCE_MS, call('PEXPIRETIME', key)))
end
