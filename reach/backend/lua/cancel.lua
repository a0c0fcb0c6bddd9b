#!lua flags=allow-oom
-- Ends every open leg with one `cancelled` receipt; without a record leaves a tombstone that answers the first send.
-- KEYS due key reach:{T}:due, the one key that names the partition
-- ARGV msg_id text the message
-- ARGV sender text must be the record's; of a message that has not come at most 8 senders leave a tombstone, each for itself
-- ARGV round integer nothing is done to a greater one
-- ARGV tomb_ms integer how long a tombstone stays, at least 60000
-- RETURNS what (cancelled tombstone ended denied newer), legs closed
-- REPEAT ended, or tombstone
-- INCLUDE start
-- INCLUDE record
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
local closed = 0
for l = 0, H.ls - 1 do
  local L = leg(r, l)
  if L and not L.fi then
    lapse(r, l, L, 'cancelled', 'cancelled', 'cancelled by its sender')
    closed = closed + 1
  end
end
if closed > 0 then save(r) end
return {closed > 0 and 'cancelled' or 'ended', closed}
