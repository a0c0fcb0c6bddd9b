#!lua flags=allow-oom
-- Renews the leases of what an instance holds. What is pending to another one is not its own any more, however long it has run.
-- KEYS due key reach:{T}:due, the one key that names the partition
-- ARGV agent text agent_id
-- ARGV instance text instance_id, the consumer's name
-- ARGV lane* text of each entry: high, normal or low
-- ARGV hand* text its id
-- RETURNS 1 or 0 per entry: whether it is still held; 0 = lost or cancelled
-- REPEAT renews
-- INCLUDE start
-- INCLUDE healing
-- INCLUDE lanes
-- INCLUDE record
local agent, instance, out = ARGV[1], ARGV[2], {}

-- 0 where the lane or its group is gone, and with it what was held.
local function count(v)
  if v.err and not (string.find(v.err, 'NOGROUP', 1, true) or string.find(v.err, 'WRONGTYPE', 1, true)) then error(v) end
  return v.err and 0 or #v
end

-- Pending to nobody, since the lane has lost its group: the ledger still knows who runs it.
local function runs(key, hand)
  local entry = redis.pcall('XRANGE', key, hand, hand)
  local f = not entry.err and entry[1] and fields_of(entry[1][2]) or {}
  local r = f.m and load(f.m)
  local L = r and not r.head.tomb and leg(r, number(f.l))
  if not L or L.h ~= hand or L.st ~= 'running' or L.i ~= instance or P .. 'inbox:' .. (L.a or '') .. ':' .. r.head.la ~= key then return false end
  return readable(key) and #call('XPENDING', key, 'agent', hand, hand, 1) == 0
end

-- A claim alone asks nobody: after a restart that lost the last second, one that had the entry before would take the lease of the one that
-- has it now, and keep it when that one is dead.
for i = 3, #ARGV, 2 do
  local key, hand = P .. 'inbox:' .. agent .. ':' .. ARGV[i], ARGV[i + 1]
  local mine = count(redis.pcall('XPENDING', key, 'agent', hand, hand, 1, instance)) == 1
  out[#out + 1] = (mine or runs(key, hand)) and count(redis.pcall('XCLAIM', key, 'agent', instance, 0, hand, 'FORCE', 'JUSTID')) or 0
end
return out
