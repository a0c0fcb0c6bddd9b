#!lua
-- Compares and sets one agent's registration, with its first beat and its types; tells all of it in one change entry.
-- KEYS agents key reach:{E}:agents, the one key that names the env
-- ARGV agent_id text whose registration
-- ARGV registration json an object without v
-- ARGV instance_id text the instance that beats first, or nothing
-- ARGV beat json its first beat, unless it beats already and so says itself how it is
-- ARGV known integer 1: `expected` is what was read; 0: there was no registration
-- ARGV expected bytes the stored bytes that the caller has read
-- ARGV type* text message types that are registered with it
-- RETURNS ok (1, or 0: the stored registration is another one, nothing was written) and the version of the env
-- REPEAT 0 where the first run has written
-- INCLUDE env
-- INCLUDE instances
-- INCLUDE tombstones
local id, registration, instance, beat = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local agents = own('agents', 'hash')
local stored = registered(id)
if stored ~= (ARGV[5] == '1' and ARGV[6]) then
  return {0, tonumber(redis.pcall('HGET', own('meta', 'hash'), 'v') or 0) or 0}
end

local members = string.match(registration, '^%s*{%s*(.-)%s*}%s*$')
if not members then return redis.error_reply('REACH_BAD_REGISTRATION not a JSON object') end
local v = next_version()
local text = '{' .. members .. (members == '' and '' or ',') .. '"v":' .. v .. '}'
call('HSET', agents, id, text)
local member, told = id .. '/' .. instance, {}
if instance ~= '' then
  local beats, load = own('beats', 'zset'), own('load', 'hash')
  local at = call('ZSCORE', beats, member)
  if not at then
    at = now
    call('ZADD', beats, now, member)
    call('HSET', load, member, beat)
  end
  note_instance(id, instance, not stored)
  -- With its beat, so that whoever reads the change need not ask for the beats of everybody.
  told = {'i', instance, 't', at, 'b', call('HGET', load, member) or '{}'}
end
for i = 7, #ARGV do
  if call('HLEN', own('types', 'hash')) < 10000 then call('HSETNX', P .. 'types', ARGV[i], '1') end
end
prune(v)
return {1, tell(v, 'agent', id, text, unpack(told))}
