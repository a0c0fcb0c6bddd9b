-- How much of an inbox each sender fills: a hash sender -> legs queued there, over all its lanes. Needs record.
-- It only bounds: a count that was lost lets its sender have more for a while, one that says too much is found out and goes.
local function share_key(agent) return P .. 'share:' .. agent end

-- One more lies there.
local function shared(r, agent)
  local key, sender = share_key(agent), r.head.s
  if type(sender) ~= 'string' then return end
  local n = redis.pcall('HINCRBY', key, sender, 1)
  if type(n) ~= 'number' or n < 1 then sure('HSET', key, sender, 1) end
  call('PEXPIREAT', key, math.max(expires(r.head), call('PEXPIRETIME', key)))
end

-- The leg leaves `queued`: to be called before its state changes.
local function unshared(r, L)
  local sender = r.head.s
  if L.st ~= 'queued' or not L.a or type(sender) ~= 'string' then return end
  local n = redis.pcall('HINCRBY', share_key(L.a), sender, -1)
  if type(n) ~= 'number' or n < 1 then redis.pcall('HDEL', share_key(L.a), sender) end
end

-- Whether this sender fills half of an inbox with room for `max`. What says that more is queued than lies there has drifted: it goes.
local function share_taken(r, agent, max)
  local key = share_key(agent)
  local mine = type(r.head.s) == 'string' and redis.pcall('HGET', key, r.head.s)
  if (type(mine) == 'string' and number(mine) or 0) < math.ceil(max / 2) then return false end
  local lying, said = 0, 0
  for _, lane in ipairs({'high', 'normal', 'low'}) do
    local n = redis.pcall('XLEN', P .. 'inbox:' .. agent .. ':' .. lane)
    if type(n) == 'number' then lying = lying + n end
  end
  for _, n in ipairs(call('HVALS', key)) do said = said + (number(n) or 0) end
  if said <= lying then return true end
  call('DEL', key)
  return false
end
