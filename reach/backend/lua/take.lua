#!lua flags=allow-oom
-- Hands over at most `free` messages to one instance: lanes in order, each checked against the ledger.
-- KEYS due key reach:{T}:due, the one key that names the partition
-- ARGV agent text agent_id
-- ARGV instance text instance_id, the consumer's name
-- ARGV free integer how many more this instance can run
-- ARGV resume 0|1 1 after a lost connection: what is pending to this instance and not in held comes again
-- ARGV held* text the hands that the instance still has
-- RETURNS gone 0|1, now, expired count, cursors {high, normal, low}, then a list per message: lane, hand, msg_id, leg, attempt, envelope, total_at_ms, processing_ms
-- REPEAT hands over more messages, never one twice, but with resume, same hand, burning nothing
-- INCLUDE record
-- INCLUDE closing
-- INCLUDE hostile_ids
local agent, instance, free = ARGV[1], ARGV[2], tonumber(ARGV[3])
local held = {}
for i = 5, #ARGV do held[ARGV[i]] = true end
local out, n, expired, gone, cursors = {}, 0, 0, 0, {}

local function offer(key, lane, entry, resumed)
  local id, f = entry[1], {}
  for i = 1, #(entry[2] or {}), 2 do f[entry[2][i]] = entry[2][i + 1] end
  local r = f.m and load(f.m)
  local l = tonumber(f.l or '')
  local L = r and not r.head.tomb and l and leg(r, l)
  local mine = L and L.h == id and (L.st == 'queued' or (resumed and L.st == 'running' and L.i == instance))
  local late = mine and (now >= r.head.ta or (not L.f and now >= r.head.fa))
  local e = f.e or (mine and redis.pcall('GET', P .. 'env:' .. f.m))
  if mine and not late and type(e) == 'string' then
    L.st, L.i, L.tk, L.al, L.f = 'running', instance, L.tk or now, now, true
    touch(r, l)
    save(r)
    n = n + 1
    out[n] = {lane, id, f.m, l, (L.n or 0) + 1, e, r.head.ta, r.head.pr}
    return
  end
  redis.pcall('XACK', key, 'agent', id)
  redis.pcall('XDEL', key, id)
  if mine then
    if not late then lapse(r, l, L, 'expired', 'backend.unavailable', 'the bytes of the message are lost')
    elseif now >= r.head.ta then lapse(r, l, L, 'expired', 'timeout.total', 'its total time was over before it was taken')
    else lapse(r, l, L, 'expired', 'ttl.expired', 'its ttl was over before the first hand-over') end
    save(r)
    expired = expired + 1
  end
  if ahead(id) then rewind(key, 'agent') end
end

for i, lane in ipairs({'high', 'normal', 'low'}) do
  local key = P .. 'inbox:' .. agent .. ':' .. lane
  if ARGV[4] == '1' then
    local pending = redis.pcall('XPENDING', key, 'agent', '-', '+', 1000, instance)
    for _, x in ipairs(pending.err and {} or pending) do
      local entry = not held[x[1]] and n < free and call('XRANGE', key, x[1], x[1])[1]
      if entry then offer(key, lane, entry, true) end
    end
  end
  local want, got = free - n, 0
  if want > 0 then
    local v = redis.pcall('XREADGROUP', 'GROUP', 'agent', instance, 'COUNT', want, 'STREAMS', key, '>')
    if type(v) == 'table' and v.err then gone = 1
    elseif v then
      for _, entry in ipairs(v[1][2]) do
        got = got + 1
        cursors[i] = entry[1]
        offer(key, lane, entry)
      end
    end
    if got < want then
      local last = redis.pcall('XREVRANGE', key, '+', '-', 'COUNT', 1)
      cursors[i] = last[1] and type(last[1]) == 'table' and last[1][1] or cursors[i]
    end
  end
  -- Behind an id of the far future the bell would never ring again.
  if cursors[i] and ahead(cursors[i]) then cursors[i] = (now - 1) .. '-0' end
  cursors[i] = cursors[i] or '0-0'
end
return {gone, now, expired, cursors, unpack(out)}
