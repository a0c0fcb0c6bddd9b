#!lua flags=allow-oom
-- Removes one agent's registration unless it shows life; remembers for 24 h when and why it went; tells it in one change entry.
-- KEYS agents key reach:{E}:agents, the one key that names the env
-- ARGV agent_id text whose registration
-- ARGV expected json the stored bytes that the caller has read
-- ARGV before_ms integer an instance that has beaten at this moment or later keeps it
-- ARGV why text left, silent or removed
-- RETURNS 1 when it is gone; 0: another one is stored, or an instance beats, and nothing was written
-- REPEAT 1, and nothing more is told
-- INCLUDE env
-- INCLUDE instances
-- INCLUDE tombstones
local id, before = ARGV[1], tonumber(ARGV[3]) or 0
local stored = registered(id)
if not stored then return 1 end
if stored ~= ARGV[2] then return 0 end
local members, seen = instances(id), 0
for _, member in ipairs(members) do
  local at = tonumber(call('ZSCORE', P .. 'beats', member)) or 0
  -- Whoever read it to be silent may have stood still since.
  if at >= before then return 0 end
  seen = math.max(seen, at)
end
local v = next_version()
local why = (ARGV[4] == 'left' or ARGV[4] == 'silent') and ARGV[4] or 'removed'
local left = '{"gone_at":' .. now .. ',"v":' .. v .. ',"why":"' .. why .. '"' .. (seen > 0 and ',"seen_at":' .. math.floor(seen) or '') .. '}'
call('HSET', P .. 'agents', id, left)
for _, member in ipairs(members) do
  call('ZREM', P .. 'beats', member)
  call('HDEL', own('load', 'hash'), member)
end
call('HDEL', own('instances', 'hash'), id)
prune(v)
tell(v, 'gone', id, left)
return 1
