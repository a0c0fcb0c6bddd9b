-- A move: a queued leg leaves the inbox where nobody has touched it for another one. Needs placing.
local function undelivered(r, L)
  local key = inbox(r, L.a)
  local pending = redis.pcall('XPENDING', key, 'agent', L.h, L.h, 1)
  local entry = redis.pcall('XRANGE', key, L.h, L.h)
  return not pending.err and not entry.err and #pending == 0 and #entry == 1
end

-- Whether the other agent has as much as it can begin already: routers decide about a whole backlog by one and the same beat. What lies in
-- its lanes is waiting or running, for an entry goes as it is settled.
local function crowded(r, p)
  return p.act == 'move' and (p.room or 0) > 0 and lying_with(p.agent) >= p.room
end

local function leave(r, L, p)
  unshared(r, L)
  drop(r, L)
  if not p.free then L.mv = (L.mv or 0) + 1 end
  L.lf = L.lf or {}
  L.lf[#L.lf + 1] = L.a
end
