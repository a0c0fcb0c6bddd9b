#!lua flags=allow-oom
-- Forgets one instance's beats; the registration stays.
-- KEYS agents key reach:{E}:agents, the one key that names the env
-- ARGV agent_id text the agent
-- ARGV instance_id text the instance that leaves
-- ARGV before_ms integer one that has beaten at this moment or later stays; '' = it says so itself, and goes in any case
-- RETURNS 1 when no other instance of the agent beats, else 0
-- REPEAT the same answer; nothing more is told
-- INCLUDE env
-- INCLUDE instances
local id, member, before = ARGV[1], ARGV[1] .. '/' .. ARGV[2], tonumber(ARGV[3] or '')
local beats = own('beats', 'zset')
local at = call('ZSCORE', beats, member)
if not (before and at and tonumber(at) >= before) then
  call('HDEL', own('load', 'hash'), member)
  if call('ZREM', beats, member) == 1 then tell(next_version(), 'gone', member, '') end
  drop_instance(id, ARGV[2])
end
local last = #instances(id) == 0
if last and not registered(id) then call('HDEL', P .. 'instances', id) end
return last and 1 or 0
