#!lua flags=allow-oom
-- Moves what nobody will read from an inbox to the internal door, and deletes the lanes when nothing is pending any more.
-- KEYS due key reach:{T}:due, the one key that names the partition
-- ARGV agent text agent_id
-- RETURNS how many entries are still pending or left for the next call; 0 = the inbox is gone
-- REPEAT goes on; 0 where it is gone
-- INCLUDE start
-- INCLUDE healing
-- INCLUDE record
-- INCLUDE lining
-- INCLUDE waking
-- INCLUDE sharing
-- INCLUDE health
-- INCLUDE standing
-- INCLUDE staging
-- INCLUDE wording
-- INCLUDE untold
-- INCLUDE closing
-- INCLUDE giving_back
local left, budget = 0, 500

local function give_back(key, entry, lost)
  local id, f = entry[1], {}
  for i = 1, #(entry[2] or {}), 2 do f[entry[2][i]] = entry[2][i + 1] end
  local r = f.m and load(f.m)
  local l = number(f.l)
  local L = r and not r.head.tomb and leg(r, l)
  if L and L.h == id and inbox(r, L.a or '') == key and (L.st == 'queued' or L.st == 'running') then
    back(r, l, L, lost, 'agent.lost', lost and made('retryable', 'agent.lost', 'its agent was removed') or nil)
    save(r)
  end
end

-- What raises is deleted all the same: nobody else will ever read it.
local function move(key, entry, lost)
  pcall(give_back, key, entry, lost)
  redis.pcall('XACK', key, 'agent', entry[1])
  redis.pcall('XDEL', key, entry[1])
  budget = budget - 1
end

-- The last entry that the group was given; what lies behind it is undelivered.
local function delivered(key)
  for _, group in ipairs(call('XINFO', 'GROUPS', key)) do
    local f = {}
    for i = 1, #group, 2 do f[group[i]] = group[i + 1] end
    if f.name == 'agent' then return f['last-delivered-id'] end
  end
end

-- While somebody works on entries of the lane, only those that nobody was ever given are moved: however many are pending, none is touched.
local function clear(key)
  local lost = redis.pcall('XPENDING', key, 'agent', 'IDLE', 15000, '-', '+', budget)
  for _, x in ipairs(lost.err and {} or lost) do move(key, call('XRANGE', key, x[1], x[1])[1] or {x[1], {}}, true) end
  local pending = redis.pcall('XPENDING', key, 'agent')
  local held = not pending.err and pending[1] or 0
  left = left + held
  local fresh = budget > 0 and redis.pcall('XRANGE', key, held > 0 and '(' .. delivered(key) or '-', '+', 'COUNT', budget) or {}
  for _, entry in ipairs(fresh.err and {} or fresh) do
    if held == 0 or #call('XPENDING', key, 'agent', entry[1], entry[1], 1) == 0 then move(key, entry, false) end
  end
end

local keys = {}
for i, lane in ipairs({'high', 'normal', 'low'}) do keys[i] = P .. 'inbox:' .. ARGV[1] .. ':' .. lane end
for _, key in ipairs(keys) do
  if budget > 0 then clear(key) end
end
if budget <= 0 then left = left + 1 end
if left == 0 then
  for _, key in ipairs(keys) do call('DEL', key) end
  call('DEL', share_key(ARGV[1]))
  forget_health(ARGV[1])
end
return left
