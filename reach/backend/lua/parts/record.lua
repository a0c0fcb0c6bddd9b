-- The ledger record: string [head, leg] for scope one, hash h + leg numbers for all. Short names: reach/envelope/ledger.py. Needs start.
local function unpacked(v)
  local ok, t = pcall(cmsgpack.unpack, v)
  return ok and type(t) == 'table' and t or nil
end

-- A head that a script can count with. Whatever else lies under the key of a record is none.
local function sound(h)
  if type(h) ~= 'table' or h.tomb then return type(h) == 'table' and type(h.tomb) == 'table' end
  for _, name in ipairs({'at', 'fa', 'ta', 'xa', 'to', 'ne', 'pr', 'op', 'ls'}) do
    local n = h[name] or (name == 'xa' and 0)
    if type(n) ~= 'number' or not (math.abs(n) <= 2 ^ 53) then return false end
  end
  return h.ls <= 100000 and type(h.la) == 'string' and type(h.j) == 'string'
end

local function load(m)
  local key = P .. 'm:' .. m
  local v = redis.pcall('GET', key)
  if type(v) == 'string' then
    local t = unpacked(v)
    if t and sound(t[1]) then return {m = m, key = key, head = t[1], legs = {[0] = type(t[2]) == 'table' and t[2] or nil}} end
  elseif type(v) == 'table' and v.err then
    local h = redis.pcall('HGET', key, 'h')
    local t = type(h) == 'string' and unpacked(h)
    if t and sound(t) then return {m = m, key = key, head = t, legs = {}, dirty = {}, all = true} end
  end
  return nil
end

-- nil where there is no such leg, also for a number that is none.
local function leg(r, l)
  if not l then return nil end
  if r.legs[l] == nil and r.all then
    local v = call('HGET', r.key, l)
    r.legs[l] = v and unpacked(v) or false
  end
  return r.legs[l] or nil
end

local function expires(h)
  return math.max(h.ta, h.xa or 0, now) + math.min(math.max(2 * h.to, 60000), 600000)
end

-- A few hundred legs at a time: Lua puts no more than 8,000 values on its stack.
local function save(r)
  if r.all then
    local a = {'h', cmsgpack.pack(r.head)}
    for l in pairs(r.dirty) do
      a[#a + 1] = l
      a[#a + 1] = cmsgpack.pack(r.legs[l])
      if #a >= 1000 then
        call('HSET', r.key, unpack(a))
        a = {}
      end
    end
    if #a > 0 then call('HSET', r.key, unpack(a)) end
    r.dirty = {}
    call('PEXPIREAT', r.key, expires(r.head))
  else
    call('SET', r.key, cmsgpack.pack({r.head, r.legs[0]}), 'PXAT', expires(r.head))
    if type(r.head.li) == 'string' then call('PEXPIREAT', P .. 'line:' .. r.head.li, expires(r.head), 'GT') end
  end
end

local function touch(r, l) if r.all then r.dirty[l] = true end end

-- When the total of a leg is over: one that was parked has a moment of its own, and who waits for its stage waits for that too.
local function ends(r, L) return L.ta or math.max(r.head.ta, r.all and L.st == 'held' and r.head.xa or 0) end

-- The earliest moment at which something about the leg is due, not after `at`.
local function moment(r, L, at)
  if not L.f then at = math.min(at, r.head.fa) end
  return math.min(at, ends(r, L))
end

local function arm(r, L, at)
  L.d = moment(r, L, at)
  sure('ZADD', P .. 'due', 'LT', L.d, r.m)
end
