#!lua flags=allow-oom
-- Adds what a run has used to its conversation. It has been used, so a full Redis must take it.
-- KEYS agents key reach:{E}:agents, the one key that names the env
-- ARGV conversation text its correlation_id
-- ARGV run text which run of which message
-- ARGV cost integer in millionths
-- ARGV tokens integer beyond what the message needed
-- RETURNS 1, or 0 where this run is counted already or nobody has sent anything in this conversation that is counted
-- REPEAT 0
-- INCLUDE env
-- INCLUDE conversing
local key, run = own('conv:' .. ARGV[1], 'hash'), 'r:' .. ARGV[2]
local f = call('HMGET', key, 'c', 't', 'k', run)
if not f[3] or f[4] then return 0 end
local k = math.min(count(f[3]) + 1, MOST)
local cost, tokens = math.min(count(f[1]) + count(ARGV[3]), MOST), math.min(count(f[2]) + count(ARGV[4]), MOST)
call('HSET', key, 'c', cost, 't', tokens, 'k', k, run, marked(k, 0, 0, 0))
keep(key, k)
return 1
