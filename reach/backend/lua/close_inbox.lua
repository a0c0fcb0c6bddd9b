#!lua flags=allow-oom
-- Moves what nobody will read from an inbox to the internal door, and deletes the lanes when nothing is pending any more.
-- KEYS due key reach:{T}:due, the one key that names the partition
-- ARGV agent text agent_id
-- RETURNS how many entries are still pending or left for the next call; 0 = the inbox is gone
-- REPEAT goes on; 0 where it is gone
-- INCLUDE record
-- INCLUDE closing
-- INCLUDE giving_back
local left, budget = 0, 500

local function move(key, entry, lost)
  local id, f = entry[1], {}
  for i = 1, #(entry[2] or {}), 2 do f[entry[2][i]] = entry[2][i + 1] end
  local r = f.m and load(f.m)
  local l = tonumber(f.l or '')
  local L = r and not r.head.tomb and l and leg(r, l)
  if L and L.h == id and (L.st == 'queued' or L.st == 'running') then
    back(r, l, L, lost, 'agent.lost', lost and made('retryable', 'agent.lost', 'its agent was removed') or nil, '{}')
    save(r)
  end
  redis.pcall('XACK', key, 'agent', id)
  call('XDEL', key, id)
  budget = budget - 1
end

for _, lane in ipairs({'high', 'normal', 'low'}) do
  local key = P .. 'inbox:' .. ARGV[1] .. ':' .. lane
  local pending, held = redis.pcall('XPENDING', key, 'agent', '-', '+', 1000), {}
  for _, x in ipairs(pending.err and {} or pending) do
    held[x[1]] = true
    if x[3] >= 15000 and budget > 0 then move(key, call('XRANGE', key, x[1], x[1])[1] or {x[1], {}}, true) else left = left + 1 end
  end
  local entries = redis.pcall('XRANGE', key, '-', '+', 'COUNT', budget + #pending + 1)
  for _, entry in ipairs(entries.err and {} or entries) do
    if not held[entry[1]] then
      if budget > 0 then move(key, entry, false) else left = left + 1 end
    end
  end
end
if left == 0 then
  for _, lane in ipairs({'high', 'normal', 'low'}) do call('DEL', P .. 'inbox:' .. ARGV[1] .. ':' .. lane) end
end
return left
