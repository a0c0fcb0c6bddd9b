#!lua flags=allow-oom
-- Adds what a run has used to its conversation, and its message where nobody has counted that. It has been used, so a full Redis must
-- take it.
-- KEYS agents key reach:{E}:agents, the one key that names the env
-- ARGV conversation text its correlation_id
-- ARGV run text which run of which message
-- ARGV cost integer in millionths
-- ARGV tokens integer beyond what the message needed
-- ARGV msg_id text the message, where it has no path and no budget, so that nobody counted it when it was sent; '' or absent = it is counted
-- ARGV round integer its round
-- ARGV needs integer the tokens that it needs
-- RETURNS 1, or 0 where this run is counted already
-- REPEAT 0
-- INCLUDE env
-- INCLUDE conversing
local key, run, msg_id = own('conv:' .. ARGV[1], 'hash'), 'r:' .. ARGV[2], ARGV[5] or ''
local f = call('HMGET', key, 'c', 't', 'k', run, 'n', 'i', 'm:' .. msg_id)
if f[4] then return 0 end
local k, round, known = math.min(count(f[3]) + 1, MOST), math.max(count(ARGV[6]), 1), mark(f[7])
local cost, tokens = math.min(count(f[1]) + count(ARGV[3]), MOST), math.min(count(f[2]) + count(ARGV[4]), MOST)
if msg_id ~= '' and not (known and known[2] >= round) then
  tokens = math.min(tokens + count(ARGV[7]), MOST)
  -- The path of a message that came out of it may have shown it already.
  if count(f[6]) > 0 then call('HSET', key, 'i', count(f[6]) - 1) else call('HSET', key, 'n', math.min(count(f[5]) + 1, MOST)) end
  call('HSET', key, 'm:' .. msg_id, marked(k, round, 0, 0))
end
call('HSET', key, 'c', cost, 't', tokens, 'k', k, run, marked(k, 0, 0, 0))
keep(key, k)
return 1
