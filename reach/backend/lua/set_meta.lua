#!lua
-- Writes or removes one setting, policy, type or rule, whatever lies there or only over what was read, and tells it in a change entry.
-- KEYS agents key reach:{E}:agents, the one key that names the env
-- ARGV hash text meta, routes, types or rules
-- ARGV name text the field
-- ARGV keep integer 1: write the value, 0: remove the field
-- ARGV value bytes the value
-- ARGV known integer 1: only where `expected` lies; 0: only where nothing does; '' or absent: whatever lies there
-- ARGV expected bytes the value that the caller has read; absent with it
-- RETURNS the version of the env; 0: another value lies there, nothing was written
-- REPEAT the same value under the next version; with `known` 0, unless the value stays the same
-- INCLUDE env
local ops = {meta = 'meta', routes = 'route', types = 'type', rules = 'rule'}
local op = ops[ARGV[1]]
if not op then return redis.error_reply('REACH_BAD_KIND ' .. ARGV[1]) end
if op == 'meta' and ARGV[2] == 'v' then return redis.error_reply('REACH_BAD_FIELD v is counted by the scripts') end
local key = own(ARGV[1], 'hash')
local known = ARGV[5] or ''
if known ~= '' and call('HGET', key, ARGV[2]) ~= (known == '1' and ARGV[6]) then return 0 end
if ARGV[3] == '1' then call('HSET', key, ARGV[2], ARGV[4]) else call('HDEL', key, ARGV[2]) end
return tell(next_version(), op, ARGV[2], ARGV[3] == '1' and ARGV[4] or '')
