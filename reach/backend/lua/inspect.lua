#!lua flags=no-writes
-- Reads a record: all legs or one, with the receipts of those that have ended.
-- KEYS due key reach:{T}:due, the one key that names the partition
-- ARGV msg_id text the message
-- ARGV leg integer which leg, -1 = all; of one that is held for its stage all of that come, since they go on together
-- ARGV envelope 0|1 1: also the bytes, from env or the inbox entry of that leg (leg 0 when all are asked for)
-- RETURNS nil without a record, else now, head msgpack, envelope or '', then leg number, leg msgpack, receipt json or '' for each
-- REPEAT the same
-- INCLUDE start
-- INCLUDE healing
-- INCLUDE record
-- INCLUDE staging
-- INCLUDE wording
-- INCLUDE closing
-- INCLUDE giving_back
local r = load(ARGV[1])
if not r then return nil end
local which = number(ARGV[2])
local from, to = which, which
if not which then from, to = 0, (r.head.ls or 0) - 1 end
if r.head.tomb then from, to = 0, -1 end
local L0 = which and not r.head.tomb and leg(r, which)
local _, S = nil, nil
if L0 and L0.st == 'held' then _, S = stage_of(r, which) end
if S then from, to = S[1], S[1] + S[2] - 1 end
local out = {now, cmsgpack.pack(r.head), ''}
for l = from, to do
  local L = leg(r, l)
  if L then
    out[#out + 1] = l
    out[#out + 1] = cmsgpack.pack(L)
    out[#out + 1] = L.fi and L.st ~= 'observed' and text(r, l, L, true) or ''
    if ARGV[3] == '1' and out[3] == '' then out[3] = bytes(r, L) or '' end
  end
end
return out
