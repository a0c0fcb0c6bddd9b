#!lua
-- Answers what a parked message asks: it goes on where it can, burning nothing, with what was left of its total.
-- KEYS due key reach:{T}:due, the one key that names the partition
-- ARGV msg_id text the message
-- ARGV sender text must be the record's
-- ARGV leg integer the leg that asks
-- ARGV hand text as the notice input_required gave it: it says which question is meant
-- ARGV value json the answer, at most 64 KiB
-- RETURNS done, stale (that question is not open), denied (another sender's message), unknown (no record)
-- REPEAT stale
-- INCLUDE start
-- INCLUDE healing
-- INCLUDE lanes
-- INCLUDE record
-- INCLUDE lining
-- INCLUDE waking
-- INCLUDE sharing
-- INCLUDE standing
-- INCLUDE staging
-- INCLUDE wording
-- INCLUDE untold
-- INCLUDE closing
-- INCLUDE releasing
-- INCLUDE giving_back
-- INCLUDE room
-- INCLUDE queueing
-- INCLUDE placing
-- INCLUDE filling
-- INCLUDE bounding
local m, sender, l, h, value = ARGV[1], ARGV[2], number(ARGV[3]), ARGV[4], ARGV[5]
check_value('value', value)
local r = load(m)
if not r or r.head.tomb then return 'unknown' end
if r.head.s ~= sender then return 'denied' end
local L = leg(r, l)
if not L or L.st ~= 'parked' or L.h ~= h then return 'stale' end
if now >= ends(r, L) then
  lapse(r, l, L, 'expired', 'timeout.total', 'nobody has answered in time')
  save(r)
  return 'stale'
end

-- Until when the legs that have asked may go on: another one's question may be open for longer.
local function latest(r)
  local at = 0
  for n = 0, r.head.ls - 1 do
    local other = leg(r, n)
    if other and not other.fi and other.ta then at = math.max(at, other.ta + (other.lm or 0)) end
  end
  return at
end

local left_ms = L.lm or 0
L.qa = L.qa or {}
L.qa[#L.qa + 1] = {p = redis.sha1hex(L.qp or 'null'), v = value, a = L.a}
L.qd = redis.sha1hex(h .. value) -- who has sent it and heard no reply knows it again
L.st, L.ta, L.lm, L.qp, L.re = 'returned', now + left_ms, nil, nil, nil
r.head.xa = latest(r)
touch(r, l)
again(r, l, L)
arm(r, L, now + 3000)
save(r)
for _, box in ipairs(r.head.rt or {}) do routed(r, box, '{"leg":' .. l .. ',"hand":' .. quoted(h) .. ',"left_ms":' .. left_ms .. '}') end
return 'done'
