-- The ledger record: string [head, leg] for scope one, hash h + leg numbers for all. Short names: reach/envelope/ledger.py.
local call = redis.call
local P = string.match(KEYS[1], '^(.*}):') .. ':'
local clock = call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

-- Runs a write on a key that may hold the wrong type by accident: such a key is made anew, one bad key must not stop the rest.
local function sure(cmd, key, ...)
  local v = redis.pcall(cmd, key, ...)
  if type(v) == 'table' and v.err then
    if not string.find(v.err, 'WRONGTYPE', 1, true) then error(v) end
    call('DEL', key)
    v = call(cmd, key, ...)
  end
  return v
end

local function unpacked(v)
  local ok, t = pcall(cmsgpack.unpack, v)
  return ok and type(t) == 'table' and t or nil
end

local function load(m)
  local key = P .. 'm:' .. m
  local v = redis.pcall('GET', key)
  if type(v) == 'string' then
    local t = unpacked(v)
    if t and type(t[1]) == 'table' then return {m = m, key = key, head = t[1], legs = {[0] = t[2]}} end
  elseif type(v) == 'table' and v.err then
    local h = redis.pcall('HGET', key, 'h')
    local t = type(h) == 'string' and unpacked(h)
    if t then return {m = m, key = key, head = t, legs = {}, dirty = {}, all = true} end
  end
  return nil
end

local function leg(r, l)
  if r.legs[l] == nil and r.all then
    local v = call('HGET', r.key, l)
    r.legs[l] = v and unpacked(v) or false
  end
  return r.legs[l] or nil
end

local function expires(h)
  return math.max(h.ta, now) + math.min(math.max(2 * h.to, 60000), 600000)
end

local function save(r)
  if r.all then
    local a = {'h', cmsgpack.pack(r.head)}
    for l in pairs(r.dirty) do
      a[#a + 1] = l
      a[#a + 1] = cmsgpack.pack(r.legs[l])
    end
    call('HSET', r.key, unpack(a))
    call('PEXPIREAT', r.key, expires(r.head))
  else
    call('SET', r.key, cmsgpack.pack({r.head, r.legs[0]}), 'PXAT', expires(r.head))
  end
end

local function touch(r, l)
  if r.all then r.dirty[l] = true end
end

-- The earliest moment at which something about the leg is due, not after `at`.
local function moment(r, L, at)
  if not L.f then at = math.min(at, r.head.fa) end
  return math.min(at, r.head.ta)
end

local function arm(r, L, at)
  L.d = moment(r, L, at)
  sure('ZADD', P .. 'due', 'LT', L.d, r.m)
end
