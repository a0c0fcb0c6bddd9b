#!lua
-- Gives the guard of one effect of a message to the run that asks, renews it, or says what came of the effect.
-- KEYS due key reach:{T}:due, the one key that names the partition
-- ARGV msg_id text the message
-- ARGV leg integer its leg
-- ARGV hand text the inbox entry's id: only the leg's present holder may begin
-- ARGV name text the guard
-- ARGV owner text the run that asks
-- ARGV lease_ms integer how long it has the guard, unless it asks again
-- RETURNS {state, value, wait_ms}: mine; done with the stored value; taken by another for wait_ms yet; stale: the leg is not this run's
-- REPEAT renews
-- INCLUDE start
-- INCLUDE record
-- INCLUDE guarding
local m, owner, lease = ARGV[1], ARGV[5], tonumber(ARGV[6])
local guard = guard_of(m, ARGV[4])
local r = load(m)
if guard.value then
  if r then outlive(guard.key, r) end -- a later round lives longer
  return {'done', guard.value, 0}
end
if guard.owner ~= owner then
  -- After a step back of the clock a lease may end far ahead: it is trusted for one lease from now, and no longer.
  local left = guard.owner and math.min(guard.ends - now, lease) or 0
  if left > 0 then
    if guard.ends - now > lease then call('HSET', guard.key, 'u', now + lease) end
    return {'taken', '', left}
  end
  local L = r and not r.head.tomb and leg(r, number(ARGV[2]))
  if not L or L.h ~= ARGV[3] or (L.st ~= 'running' and L.st ~= 'queued') then return {'stale', '', 0} end
end
call('HSET', guard.key, 'o', owner, 'u', now + lease)
outlive(guard.key, r)
return {'mine', '', 0}
