#!lua flags=allow-oom
-- Does what is due in the partition: totals, ttls, lost holders, network and waiting times. With msg_id: a caller's own message only.
-- KEYS due key reach:{T}:due, the one key that names the partition
-- ARGV msg_id text '' = everything that is due, at most 100 messages; else a caller's: its total and ttl only, no tick, no lease
-- RETURNS now, more 0|1, next moment or 0, grace_until, the caller's deadline or 0, then a list per leg: msg_id, leg, what, agent, instance, attempt, code
-- REPEAT nothing, until the next moment
-- INCLUDE start
-- INCLUDE healing
-- INCLUDE lanes
-- INCLUDE record
-- INCLUDE lining
-- INCLUDE waking
-- INCLUDE sharing
-- INCLUDE standing
-- INCLUDE staging
-- INCLUDE wording
-- INCLUDE untold
-- INCLUDE closing
-- INCLUDE health
-- INCLUDE circuits
-- INCLUDE releasing
-- INCLUDE giving_back
local due, events, grace_until, seen = P .. 'due', {}, 0, 0
local function note(r, l, L, what, code)
  local by, instance = L.ba or L.a or '', L.ba and L.bi or L.i or ''
  events[#events + 1] = {r.m, l, what, by, instance, (L.n or 0) + (L.ba and 0 or 1), code}
end
-- A leg that has ended with its best answer was answered, whatever has ended it.
local function answered(r, l, L)
  if L.ba then note(r, l, L, 'answered', L.cd) end
  return L.ba
end
-- INCLUDE ticking
-- INCLUDE visiting
local function process(m, caller)
  local r = load(m)
  if not r or r.head.tomb or r.head.op <= 0 then redis.pcall('ZREM', due, m) return 0 end
  local first, changed = nil, false
  seen = seen + r.head.ls
  for l = 0, r.head.ls - 1 do
    local L = leg(r, l)
    if L and not L.fi then
      local at = L.d
      if caller then
        if overdue(r, l, L) then at, changed = nil, true end
      elseif not at or at <= now or (at > now + LEASE_MS and holder_of(r, L)) then -- a lease is never further ahead
        touch(r, l)
        changed = true
        if #events >= 500 then at = now else at = visit(r, l, L) end
        if at then at = moment(r, L, at) end
        L.d = at or L.d
      end
      if at and (not first or at < first) then first = at end
    end
  end
  if changed then save(r) end
  if not caller then
    if first then sure('ZADD', due, first, m) else redis.pcall('ZREM', due, m) end
  end
  return r.head.op > 0 and (first or r.head.ta) or 0
end

local function told(...)
  local out = {...}
  for _, event in ipairs(events) do out[#out + 1] = event end
  return out
end

if ARGV[1] ~= '' then
  local at = process(ARGV[1], true)
  return told(now, 0, 0, 0, at)
end
local left = ticked()
local ids = redis.pcall('ZRANGEBYSCORE', due, '-inf', now, 'LIMIT', 0, 100)
for _, m in ipairs(ids.err and {} or ids) do
  -- A record that nothing can be done with must not stop the others; it expires by itself.
  if #events < 500 and seen < 20000 and not pcall(process, m, false) then redis.pcall('ZADD', due, now + 15000, m) end
end
local head = redis.pcall('ZRANGE', due, 0, 0, 'WITHSCORES')
return told(now, (left or #ids >= 100 or #events >= 500 or seen >= 20000) and 1 or 0, number(head[2]) or 0, grace_until, 0)
