#!lua flags=allow-oom
-- Those that have been silent for long. Words from the future, said before the clock went back, count from now: else their dead
-- would live until then.
-- KEYS agents key reach:{E}:agents, the one key that names the env
-- ARGV before_ms integer silent since before this moment
-- ARGV of text whose words: beats, or recorders
-- RETURNS agent_id/instance_id (or node_id/worker) and last word in turn, the oldest first, at most 1,000 pairs
-- REPEAT the same
-- INCLUDE env
local words = own(ARGV[2] == 'recorders' and 'recorders' or 'beats', 'zset')
for _, member in ipairs(call('ZRANGEBYSCORE', words, '(' .. now + 1000, '+inf', 'LIMIT', 0, 1000)) do call('ZADD', words, now, member) end
return call('ZRANGEBYSCORE', words, '-inf', '(' .. ARGV[1], 'WITHSCORES', 'LIMIT', 0, 1000)
