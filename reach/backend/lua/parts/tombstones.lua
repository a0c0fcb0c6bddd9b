-- What is remembered of agents that are gone: {"gone_at":..,"v":..,"why":"left|silent|removed","seen_at":..}, for 24 h. Needs env.
local MAX_GONE, GONE_MS = 10000, 86400000

-- They go a few at a time: each change looks at another corner of the hash. Where there are too many (of agents that take a new name at
-- each start), the oldest one that is met goes whatever its age.
local function prune(v)
  local page = call('HSCAN', own('agents', 'hash'), v, 'COUNT', 10)[2]
  local oldest, oldest_at
  for i = 1, #page, 2 do
    local gone_at = tonumber(string.match(page[i + 1], '^{"gone_at":(%d+)'))
    if gone_at and now - gone_at > GONE_MS then call('HDEL', P .. 'agents', page[i])
    elseif gone_at and (not oldest or gone_at < oldest_at) then oldest, oldest_at = page[i], gone_at end
  end
  if oldest and call('HLEN', P .. 'agents') - call('ZCARD', own('beats', 'zset')) > MAX_GONE then call('HDEL', P .. 'agents', oldest) end
end
