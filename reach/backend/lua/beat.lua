#!lua flags=allow-oom
-- One instance's sign of life, by the clock of Redis; a change of its state is told in a change entry.
-- KEYS agents key reach:{E}:agents, the one key that names the env
-- ARGV agent_id text the agent
-- ARGV instance_id text the instance
-- ARGV beat json at most 16 KiB: {state, reason, inflight, load, success_rate, avg_response_ms, context_left, epoch, partitions,
--   declares}, and capabilities to ask for a change of them
-- RETURNS known (1, or 0: no such registration: register again) and the moment in ms
-- REPEAT the same beat a moment later, and the same change of capabilities asked for again
-- INCLUDE env
-- INCLUDE instances
local id, member, beat = ARGV[1], ARGV[1] .. '/' .. ARGV[2], ARGV[3]
if #beat > 16384 then return redis.error_reply('REACH_BAD_BEAT a beat of ' .. #beat .. ' bytes, at most 16384') end
for i = 1, 2 do
  -- A slash in one of them would make it an instance of somebody else.
  if #ARGV[i] > 128 or not string.find(ARGV[i], '^%w[%w._-]*$') then return redis.error_reply('REACH_BAD_BEAT agent_id or instance_id is no name') end
end
local function state(text) return string.match(text or '', '"state"%s*:%s*"([a-z_]+)"') or 'ready' end
-- Without a registration only that the instance takes no work is kept: it may be registering, and must not count as ready meanwhile.
local known = registered(id)
if not known and (state(beat) == 'ready' or state(beat) == 'busy') then return {0, now} end
local load = own('load', 'hash')
local before = call('HGET', load, member)
call('ZADD', own('beats', 'zset'), now, member)
call('HSET', load, member, beat)
if not before then note_instance(id, ARGV[2], not known) end
-- A change of capabilities is asked for by a beat and judged by a registrar: it goes on as an entry of control.
local asked = string.find(beat, '"capabilities"%s*:') and string.match(beat, '^%s*{%s*(.-)%s*}%s*$')
if known and asked then
  local who = '{"op":"capabilities","beat":1,"agent_id":"' .. id .. '","instance_id":"' .. ARGV[2] .. '",'
  call('XADD', own('control', 'stream'), 'MAXLEN', '~', 10000, '*', 'c', who .. asked .. '}')
end
if known and (not before or state(before) ~= state(beat)) then tell(next_version(), 'state', member, beat) end
return {known and 1 or 0, now}
