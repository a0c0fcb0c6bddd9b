#!lua
-- Applies a batch of decisions and acknowledges their entries in the same step.
-- KEYS due key reach:{T}:due, the one key that names the partition
-- ARGV n integer how many decisions
-- ARGV max_dead integer how many dead letters are kept
-- ARGV decision* msgpack n maps: k (s send, a again, r refuse), x stream key, id entry id; s: m, H head, p plans, r reply_to, o notice, mo and ms how many messages may be open, of all and of its sender (0 = any number); a: m, l, h, s state, n attempt, p plans, ls their legs, pr, to; r: r mailbox, re receipt, d fields of the dead entry beside e, none = not kept
-- ARGV envelope* bytes n envelopes ('' for a; for r the bytes that the dead entry keeps); bytes, since this msgpack knows text only
-- RETURNS a list per decision: verdict (done skipped full gone open changed error), known (of full: share, agent, env, sender: the bound, where it is not the room of the inbox; of open: for how many ms; of error: the text), how many entries lie with the agent to which one leg was handed (else 0), then the hand of each leg or ''
-- REPEAT skipped for what is acknowledged already, also for what failed after it and was kept among the dead letters; nothing is written twice
-- INCLUDE start
-- INCLUDE healing
local n, max_dead = number(ARGV[1]), number(ARGV[2])
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
-- INCLUDE health
-- INCLUDE circuits
-- INCLUDE giving_back
-- INCLUDE releasing
-- INCLUDE observing
-- INCLUDE holding
-- INCLUDE promoting
-- INCLUDE room
-- INCLUDE queueing
-- INCLUDE placing
-- INCLUDE rescuing
-- INCLUDE asking
-- INCLUDE duplicates
-- INCLUDE reopening
-- INCLUDE sending
-- INCLUDE raising
-- INCLUDE moving
-- INCLUDE deciding_again
local function refuse(d, e)
  if not acknowledge(d) then return {'skipped'} end
  if next(d.d) then letter(d.d.m, e, d.d.r, d.d.h) end
  if d.r ~= '' then post(d.r, 'r', d.re) end
  return {'done', ''}
end

-- So that routers know how full it is, whoever has sent what lies there. Of a broadcast nobody was chosen.
local function lying_after(d, v)
  local one = v[1] == 'done' and (v[3] or '') ~= '' and (d.k == 'a' or d.H.sc == 'one')
  return one and lying_with(d.p[1].agent) or 0
end

local steps = {s = send, a = decided, r = refuse}
local out, wound = {}, {}
for i = 1, n do
  local d = cmsgpack.unpack(ARGV[2 + i])
  local e = ARGV[2 + n + i]
  local ok, v = pcall(steps[d.k], d, e)
  if not ok then
    v = {'error', type(v) == 'table' and v.err or tostring(v)}
    if d.acked then pcall(rescue, d, e, v[2]) end
  end
  v[2] = v[2] or ''
  table.insert(v, 3, lying_after(d, v)) -- in place: Lua unpacks no more than 8,000
  out[i] = v
  if d.acked then
    call('XDEL', d.x, d.id)
    if ahead(d.id) then wound[d.x] = true end
  end
end
for key in pairs(wound) do rewind(key) end
return out
