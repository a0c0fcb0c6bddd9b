-- What every script of a partition starts with: prefix, clock, the bounds of streams, and how to read and write what others may have spoilt.
local call = redis.call
local P = string.match(KEYS[1], '^(.*}):') .. ':'
local MAX_MAIL = 10000 -- as in reach/backend/bounds.py
local clock = call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

-- A number as entries and arguments of other people say it. tonumber takes nan, inf, 0x0 and 1e3 too, and no table can be asked for nan.
local function number(s)
  return s and #s <= 15 and string.match(s, '^%d+$') and tonumber(s) or nil
end

-- Runs a write on a key that may hold the wrong type, or a stream that takes no more ids: such a key is made anew, one bad key must not
-- stop the rest. Any other error is raised.
local function sure(cmd, key, ...)
  local v = redis.pcall(cmd, key, ...)
  if type(v) == 'table' and v.err then
    if not (string.find(v.err, 'WRONGTYPE', 1, true) or string.find(v.err, 'last possible', 1, true)) then error(v) end
    call('DEL', key)
    v = call(cmd, key, ...)
  end
  return v
end
