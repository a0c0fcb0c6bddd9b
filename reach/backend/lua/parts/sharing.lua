-- How much each sender fills: of an inbox, a hash sender -> legs queued there, over all its lanes; and of the partition, a hash sender ->
-- open messages ('*': of all), where those are bounded. Needs record, waking.
-- It only bounds: a count that was lost lets its sender have more for a while, one that says too much is found out and goes.
local function share_key(agent) return P .. 'share:' .. agent end

local function more(r, key, name)
  if type(name) ~= 'string' then return end
  local n = redis.pcall('HINCRBY', key, name, 1)
  if type(n) ~= 'number' or n < 1 then sure('HSET', key, name, 1) end
  call('PEXPIREAT', key, math.max(expires(r.head), call('PEXPIRETIME', key)))
end

local function less(key, name)
  if type(name) ~= 'string' then return end
  local n = redis.pcall('HINCRBY', key, name, -1)
  if type(n) ~= 'number' or n < 1 then redis.pcall('HDEL', key, name) end
end

local function said(key, name)
  local n = type(name) == 'string' and redis.pcall('HGET', key, name)
  return type(n) == 'string' and number(n) or 0
end

-- One more lies there.
local function shared(r, agent) more(r, share_key(agent), r.head.s) end

-- The leg leaves `queued`: to be called before its state changes.
local function unshared(r, L)
  if L.st ~= 'queued' or not L.a then return end
  less(share_key(L.a), r.head.s)
  less_queued(L.a, r.head.la, r.head.s)
end

-- How many entries lie in an inbox, queued and running.
local function lying_with(agent)
  local lying = 0
  for _, lane in ipairs({'high', 'normal', 'low'}) do
    local n = redis.pcall('XLEN', P .. 'inbox:' .. agent .. ':' .. lane)
    if type(n) == 'number' then lying = lying + n end
  end
  return lying
end

-- Whether this sender has so many queued there. What says that more is queued than lies there has drifted: it goes.
local function share_taken(r, agent, most)
  local key, all = share_key(agent), 0
  if said(key, r.head.s) < most then return false end
  local counts = redis.pcall('HVALS', key)
  for _, n in ipairs(counts.err and {} or counts) do all = all + (number(n) or 0) end
  if all <= lying_with(agent) then return true end
  call('DEL', key)
  return false
end

-- Which bound one more message would break: `most` open ones of all, or `mine` of its sender. Each open one has its moment in due: what
-- says that there are more of them has drifted, and goes.
local function over_bound(sender, most, mine)
  local key = P .. 'inflight'
  local all, own = said(key, '*'), said(key, sender)
  local why = most > 0 and all >= most and 'env' or mine > 0 and own >= mine and 'sender' or nil
  local due = why and redis.pcall('ZCARD', P .. 'due')
  if not why or math.max(all, own) <= (type(due) == 'number' and due or 0) then return why end
  call('DEL', key)
  return nil
end

local function counted_in(r)
  r.head.ic = true
  more(r, P .. 'inflight', '*')
  more(r, P .. 'inflight', r.head.s)
end

-- A leg ends, and with the last one its message.
local function counted_out(r, L)
  unshared(r, L)
  if r.head.op > 1 or not r.head.ic then return end
  less(P .. 'inflight', '*')
  less(P .. 'inflight', r.head.s)
end
