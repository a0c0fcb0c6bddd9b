#!lua flags=allow-oom
-- Notes up to when a process has written all its hop records, or forgets it.
-- KEYS agents key reach:{E}:agents, the one key that names the env
-- ARGV name text node_id/worker, as the records of the process say it
-- ARGV at_ms integer up to when they are written; '' = it goes
-- ARGV before_ms integer of one that goes: only if it has said nothing for this moment or a later one; '' = it says so itself
-- RETURNS 1, or 0 where it has said something since and stays
-- REPEAT the same
-- INCLUDE env
local key, name, at, before = own('recorders', 'zset'), ARGV[1], tonumber(ARGV[2] or ''), tonumber(ARGV[3] or '')
if #name > 257 or not string.find(name, '^[%w._-]*/[%w._-]+$') then return redis.error_reply('REACH_BAD_FIELD ' .. #name .. ' bytes are no node/worker') end
if at then
  call('ZADD', key, math.max(math.min(at, now), 0), name)
  return 1
end
local said = before and tonumber(call('ZSCORE', key, name) or '')
if said and said >= before then return 0 end
call('ZREM', key, name)
return 1
