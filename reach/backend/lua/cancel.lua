#!lua flags=allow-oom
-- Ends every open leg with one `cancelled` receipt; what has yet to come, the message or its next round, meets a tombstone.
-- KEYS due key reach:{T}:due, the one key that names the partition
-- ARGV msg_id text the message
-- ARGV sender text must be the record's; of a message that has not come at most 8 senders leave a tombstone, each for itself
-- ARGV round integer nothing is done to a greater one
-- ARGV tomb_ms integer how long a tombstone, or the record that keeps the round, stays at least; never under 60000
-- RETURNS what (cancelled tombstone ended denied newer), legs closed
-- REPEAT ended, or tombstone
-- INCLUDE start
-- INCLUDE healing
-- INCLUDE record
-- INCLUDE lining
-- INCLUDE waking
-- INCLUDE sharing
-- INCLUDE standing
-- INCLUDE staging
-- INCLUDE wording
-- INCLUDE untold
-- INCLUDE closing
local m, sender, round, tomb_ms = ARGV[1], ARGV[2], number(ARGV[3]) or 1, math.max(number(ARGV[4]) or 0, 60000)
local r = load(m)

-- Each sender has a tombstone of its own there: a stranger's neither cancels nor saves the message. The longest one is kept for all.
local function bury(tombs)
  local count = 0
  for _ in pairs(tombs) do count = count + 1 end
  if not tombs[sender] and count >= 8 then return {'denied', 0} end
  tombs[sender] = math.max(tonumber(tombs[sender]) or 1, round)
  local head = {tomb = tombs, s = '', fp = '', sc = 'one', la = 'normal', tt = 0, ne = 0, pr = 0, to = 0, ma = 1, j = ''}
  local px = math.max(r and call('PTTL', r.key) or 0, tomb_ms)
  call('SET', P .. 'm:' .. m, cmsgpack.pack({head}), 'PX', px)
  return {'tombstone', 0}
end

if not r then return bury({}) end
local H = r.head
if H.tomb then return bury(H.tomb) end
if H.s ~= sender then return {'denied', 0} end
if (H.ro or 1) > round then return {'newer', 0} end
-- Who may have the entry is told that it is gone. It proves nothing and may be lost, and who may not say it cancels all the same.
local function hint(L)
  if L.st ~= 'queued' and L.st ~= 'running' then return end
  redis.pcall('SPUBLISH', P .. 'hint:' .. tostring(L.a), tostring(H.la) .. ':' .. tostring(L.h))
end

local closed, opens = 0, false
r.still = true -- no stage is called
for l = 0, H.ls - 1 do
  local L = leg(r, l)
  if L and not L.fi then
    hint(L)
    lapse(r, l, L, 'cancelled', 'cancelled', 'cancelled by its sender')
    closed = closed + 1
  end
  opens = opens or (L and L.ss == 'retryable')
end
local ahead = opens and round > (H.ro or 1)
-- What ended retryable a greater round would open again, and its send may be on its way: the record keeps the cancel.
if ahead then H.sp = math.max(tonumber(H.sp) or 0, round) end
local stays_ms = math.max(call('PTTL', r.key), tomb_ms)
if ahead or closed > 0 then save(r) end
if ahead then call('PEXPIRE', r.key, stays_ms, 'GT') end
return {closed > 0 and 'cancelled' or (ahead and 'tombstone' or 'ended'), closed}
