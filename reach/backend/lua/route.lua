#!lua
-- Applies a batch of decisions and acknowledges their entries in the same step.
-- KEYS due key reach:{T}:due, the one key that names the partition
-- ARGV n integer how many decisions
-- ARGV decision* msgpack n maps: k (s send, a again, r refuse), x stream key, id entry id; s: m, H head, p plans, r reply_to, o notice; a: m, l, h, s state, n attempt, p plan, pr; r: r mailbox, re receipt, d fields of the dead entry beside e, none = not kept
-- ARGV envelope* bytes n envelopes ('' for a; for r the bytes that the dead entry keeps); bytes, since this msgpack knows text only
-- RETURNS a list per decision: verdict (done skipped full gone changed error), known, then the hand of each leg or ''; error: the text
-- REPEAT skipped for what is acknowledged already; nothing is written twice
-- INCLUDE record
-- INCLUDE closing
-- INCLUDE giving_back
-- INCLUDE placing
-- INCLUDE duplicates
-- INCLUDE sending
-- INCLUDE deciding_again
-- INCLUDE hostile_ids
local function refuse(d, e)
  if call('XACK', d.x, 'routers', d.id) == 0 then return {'skipped'} end
  if d.r ~= '' then post(d.r, 'r', d.re) end
  if next(d.d) then
    local f = {'e', e}
    for k, v in pairs(d.d) do f[#f + 1] = k; f[#f + 1] = v end
    sure('XADD', P .. 'dead', 'MAXLEN', '~', 100000, '*', unpack(f))
  end
  return {'done', ''}
end

local n = tonumber(ARGV[1])
local steps = {s = send, a = decided, r = refuse}
local out, wound = {}, {}
for i = 1, n do
  local d = cmsgpack.unpack(ARGV[1 + i])
  local ok, v = pcall(steps[d.k], d, ARGV[1 + n + i])
  if not ok then v = {'error', type(v) == 'table' and v.err or tostring(v)} end
  out[i] = v
  if v[1] == 'done' then
    call('XDEL', d.x, d.id)
    if ahead(d.id) then wound[d.x] = true end
  end
end
for key in pairs(wound) do rewind(key, 'routers') end
return out
