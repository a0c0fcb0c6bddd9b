#!lua flags=allow-oom
-- Forgets one instance's beats; the registration stays.
-- KEYS agents key reach:{E}:agents, the one key that names the env
-- ARGV agent_id text the agent
-- ARGV instance_id text the instance that leaves
-- RETURNS 1 when no other instance of the agent beats, else 0
-- REPEAT the same answer; nothing more is told
-- INCLUDE env
-- INCLUDE instances
local id, member = ARGV[1], ARGV[1] .. '/' .. ARGV[2]
local gone = call('ZREM', own('beats', 'zset'), member)
call('HDEL', own('load', 'hash'), member)
if gone == 1 then tell(next_version(), 'gone', member, '') end
return #instances(id) == 0 and 1 or 0
