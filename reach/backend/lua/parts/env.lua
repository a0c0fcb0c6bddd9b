-- What the scripts of an env share: prefix, clock, keys that are made anew when they hold the wrong type, and the log of changes.
local call = redis.call
local P = string.match(KEYS[1], '^(.*}):') .. ':'
local clock = call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

local function own(name, kind)
  local key = P .. name
  local found = call('TYPE', key).ok
  if found ~= 'none' and found ~= kind then call('DEL', key) end
  return key
end

-- Every change has the next number, so that a reader sees a gap and takes a new snapshot.
local function next_version()
  local meta = own('meta', 'hash')
  local v = redis.pcall('HINCRBY', meta, 'v', 1)
  if type(v) ~= 'number' then
    v = 1
    call('HSET', meta, 'v', v)
  end
  return v
end

-- A stream whose last id is the last possible one takes no more: it is made anew, which readers see as a gap.
-- What follows `data` is told beside it: field, value, field, value, ...
local function tell(v, op, name, data, ...)
  local key = own('changes', 'stream')
  local made = redis.pcall('XADD', key, 'MAXLEN', '~', 10000, '*', 'v', v, 'op', op, 'n', name, 'd', data, ...)
  if type(made) == 'table' and made.err then
    call('DEL', key)
    call('XADD', key, '*', 'v', v, 'op', op, 'n', name, 'd', data, ...)
  end
  return v
end

-- A removed agent leaves {"gone_at":..,"v":..} for 24 h; to everybody who asks for a registration it is absent.
local function registered(id)
  local stored = call('HGET', own('agents', 'hash'), id)
  return stored and string.sub(stored, 1, 11) ~= '{"gone_at":' and stored
end
