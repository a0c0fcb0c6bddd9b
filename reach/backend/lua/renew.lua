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
local agent, instance, out = ARGV[1], ARGV[2], {}

-- 0 where the lane or its group is gone, and with it what was held.
local function count(v)
  if v.err and not (string.find(v.err, 'NOGROUP', 1, true) or string.find(v.err, 'WRONGTYPE', 1, true)) then error(v) end
  return v.err and 0 or #v
end

-- A claim alone asks nobody: after a restart that lost the last second, one that had the entry before would take the lease of the one that
-- has it now, and keep it when that one is dead.
for i = 3, #ARGV, 2 do
  local key, hand = P .. 'inbox:' .. agent .. ':' .. ARGV[i], ARGV[i + 1]
  local mine = count(redis.pcall('XPENDING', key, 'agent', hand, hand, 1, instance)) == 1
  out[#out + 1] = mine and count(redis.pcall('XCLAIM', key, 'agent', instance, 0, hand, 'JUSTID')) or 0
end
return out
