#!lua flags=allow-oom
-- Ends every open leg with one `cancelled` receipt; without a record leaves a tombstone that answers the first send.
-- KEYS due key reach:{T}:due, the one key that names the partition
-- ARGV msg_id text the message
-- ARGV sender text must be the record's
-- ARGV round integer nothing is done to a greater one
-- ARGV tomb_ms integer how long a tombstone stays, at least 60000
-- RETURNS what (cancelled tombstone ended denied newer), legs closed
-- REPEAT ended, or tombstone
-- INCLUDE start
-- INCLUDE record
-- INCLUDE closing
local m, sender, round, tomb_ms = ARGV[1], ARGV[2], number(ARGV[3]) or 1, math.max(number(ARGV[4]) or 0, 60000)
local r = load(m)
if not r or (r.head.tomb and r.head.s ~= sender) then
  if r then return {'denied', 0} end
  local head = {tomb = true, s = sender, ro = round, fp = '', sc = 'one', la = 'normal', tt = 0, ne = 0, pr = 0, to = 0, ma = 1, j = ''}
  call('DEL', P .. 'm:' .. m)
  call('SET', P .. 'm:' .. m, cmsgpack.pack({head}), 'PX', tomb_ms)
  return {'tombstone', 0}
end
local H = r.head
if H.s ~= sender then return {'denied', 0} end
if H.tomb then
  H.ro = math.max(H.ro or 1, round)
  call('SET', r.key, cmsgpack.pack({H}), 'PX', tomb_ms)
  return {'tombstone', 0}
end
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
