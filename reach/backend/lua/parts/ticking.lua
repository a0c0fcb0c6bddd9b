-- When `due` ran last, and what an outage or a step of the clock holds up. Needs start; `due`, `grace_until` from due.
local LEASE_MS, MAX_LOWERED = 15000, 1000
local DOORS = {'ingress:high', 'ingress:normal', 'ingress:low', 'again', 'receipts'}

-- Idle 0 is what XPENDING says of an entry that was delivered this very moment, and of one from the future, before the clock stepped back:
-- that one would count as just delivered until then. Claimed by whom it is pending to, it counts from now.
local function restamp(key, group, pending)
  if pending[3] == 0 then redis.pcall('XCLAIM', key, group, pending[2], 0, pending[1], 'IDLE', 0, 'JUSTID') end
end

local function restamp_doors()
  for _, door in ipairs(DOORS) do
    local pending = redis.pcall('XPENDING', P .. door, 'routers', '-', '+', MAX_LOWERED)
    for _, x in ipairs(pending.err and {} or pending) do restamp(P .. door, 'routers', x) end
  end
end

-- Moments that were made before the step lie too far ahead. All are brought near, since only a look shows which of them are leases; what is
-- none of those is put back then. True: there are more.
local function lowered()
  local far = redis.pcall('ZRANGEBYSCORE', due, '(' .. now + LEASE_MS, '+inf', 'LIMIT', 0, MAX_LOWERED)
  local a = {}
  for _, m in ipairs(far.err and {} or far) do
    a[#a + 1] = now + LEASE_MS
    a[#a + 1] = m
  end
  if #a > 0 then call('ZADD', due, unpack(a)) end
  return #a == 2 * MAX_LOWERED
end

-- True: the moments of a clock that has stepped back are not all lowered yet.
local function ticked()
  local key = P .. 'tick'
  local t = redis.pcall('HMGET', key, 'last', 'until', 'start', 'back')
  if t.err then t = {} end
  local last, start = number(t[1]), number(t[3]) or 0
  local ahead = last and last > now
  grace_until = math.min(number(t[2]) or 0, now + 15000)
  local gap = not last or ahead or now - last > 3000
  if gap and (not last or ahead or now - last > 5000 or now - start >= 30000 or start > now) then grace_until, start = now + 15000, now end
  sure('HSET', key, 'last', now, 'until', grace_until, 'start', start)
  if ahead then restamp_doors() end
  local left = (ahead or t[4]) and lowered()
  if left then call('HSET', key, 'back', now) elseif t[4] then call('HDEL', key, 'back') end
  return left
end
