#!lua flags=allow-oom
-- The instances that have been silent for long. Beats from the future, made before the clock went back, count from now: else their dead
-- would live until then.
-- KEYS agents key reach:{E}:agents, the one key that names the env
-- ARGV before_ms integer silent since before this moment
-- RETURNS agent_id/instance_id and last beat in turn, the oldest first, at most 1,000 pairs
-- REPEAT the same
-- INCLUDE env
local beats = own('beats', 'zset')
for _, member in ipairs(call('ZRANGEBYSCORE', beats, '(' .. now + 1000, '+inf', 'LIMIT', 0, 1000)) do call('ZADD', beats, now, member) end
return call('ZRANGEBYSCORE', beats, '-inf', '(' .. ARGV[1], 'WITHSCORES', 'LIMIT', 0, 1000)
