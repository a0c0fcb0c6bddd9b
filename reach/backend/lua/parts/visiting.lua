-- What is due of one leg. Answers the next moment, nil when the leg has ended. Needs lanes, lining, releasing, giving_back, ticking; `grace_until`, `note`, `answered` from due.
local GAPS, SHORT = {3000, 6000, 12000}, 'nobody was found within total_ms, which is no longer than network_ms'

local function holder_of(r, L)
  if L.st ~= 'queued' and L.st ~= 'running' then return nil end
  local pending = redis.pcall('XPENDING', inbox(r, L.a), 'agent', L.h, L.h, 1)
  return not pending.err and pending[1] or nil
end

local function expire(r, l, L, code, message)
  lapse(r, l, L, 'expired', code, message, ARGV[1] == '') -- a caller hears only when it is due
  if not answered(r, l, L) then note(r, l, L, 'expired', code) end
  return true
end

local function late(r, L) return L.st == 'parked' and 'nobody has answered in time' or L.st == 'waiting' and (L.a or '') == '' and r.head.to <= r.head.ne and SHORT or 'the total time is over' end

local function overdue(r, l, L)
  if now >= ends(r, L) then lost_run(r, l, L) return expire(r, l, L, 'timeout.total', late(r, L)) end
  if not L.f and now >= r.head.fa then
    if holder_of(r, L) then L.f = true return false end -- a plain reader has it: the first hand-over was in time
    return expire(r, l, L, 'ttl.expired', 'the ttl was over before the first hand-over')
  end
  return false
end

local function rearm(L)
  L.re = (L.re or 0) + 1
  return now + (GAPS[L.re] or 15000)
end

local function lost(r, l, L, burn, what, code, message)
  note(r, l, L, what, code)
  if burn then lost_run(r, l, L, what == 'reclaimed') end
  L.se = nil
  if back(r, l, L, burn, code, burn and made('retryable', code, message, '{"state":"' .. L.st .. '"}') or nil, nil, true) then return L.d end
  answered(r, l, L)
end

-- Somebody holds the entry: its lease and its processing time.
local function holding(r, l, L, holder)
  local consumer, idle = holder[2], holder[3]
  restamp(inbox(r, L.a), 'agent', holder)
  if not L.tk then L.tk, L.i = now - idle, consumer end
  L.f = true
  if (L.al or L.tk) > now then L.tk, L.al = math.min(L.tk, now), now end -- the clock has stepped back
  local over = (L.al or L.tk) + r.head.pr
  if now < grace_until then return grace_until end
  -- Both may be over at once: who has missed two renewals is gone, not slow, and its work goes elsewhere without a back-off.
  if idle >= 15000 or (over <= now and idle >= 10000) then return lost(r, l, L, true, 'reclaimed', 'agent.lost', 'its agent stopped renewing the lease') end
  if over <= now then return lost(r, l, L, true, 'overdue', 'timeout.processing', 'no sign of life of the handler in its processing time') end
  return math.min(now + 15000 - idle, over)
end

local function visit(r, l, L)
  if overdue(r, l, L) then return nil end
  local may_ask = mend(r, L)
  local holder = holder_of(r, L)
  if holder then return holding(r, l, L, holder) end
  if L.st == 'queued' or L.st == 'running' then
    local entry = redis.pcall('XRANGE', inbox(r, L.a), L.h, L.h)
    if entry.err or #entry == 0 then return lost(r, l, L, false, 'gone', 'agent.lost') end
    readable(inbox(r, L.a)) -- where the group was lost, nobody could take it
    if L.st == 'running' then -- and who runs it may live: it has a lease to say so
      redis.pcall('XCLAIM', inbox(r, L.a), 'agent', L.i, 0, L.h, 'FORCE', 'JUSTID')
      return now + LEASE_MS
    end
    if now < grace_until then return grace_until end
    if L.st == 'queued' then
      L.q = math.min(L.q or 0, now)
      if now < L.q + r.head.ne then return math.min(L.q + r.head.ne, now + LEASE_MS) end
    end
  end
  if L.st == 'parked' or waits(r, l, L) then return ends(r, L) end
  if L.st == 'waiting' and (L.u or 0) > now then return L.u end
  if not may_ask then return rearm(L) end
  note(r, l, L, 'again', '')
  again(r, l, L)
  return rearm(L)
end
