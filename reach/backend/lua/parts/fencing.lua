-- Who may speak for a leg: settle and park are fenced by the same hand and instance. Needs record, closing.

-- Only this message's own entry: ids are unique within a stream, and another lane may have the same one.
local function discard(agent, m, l, h)
  for _, lane in ipairs({'high', 'normal', 'low'}) do
    local key = P .. 'inbox:' .. agent .. ':' .. lane
    local x = redis.pcall('XRANGE', key, h, h)
    local f = not x.err and x[1] and x[1][2]
    if f and l and f[2] == m and f[4] == tostring(l) then
      redis.pcall('XACK', key, 'agent', h)
      redis.pcall('XDEL', key, h)
    end
  end
end

-- A plain reader comes without a take: its run began when the entry was delivered.
local function catch_up(r, L, instance)
  if L.st ~= 'queued' then return end
  local p = redis.pcall('XPENDING', inbox(r, L.a), 'agent', L.h, L.h, 1)
  p = not p.err and p[1]
  L.i = instance ~= '' and instance or (p and p[2]) or nil
  L.tk = L.tk or (p and now - p[3]) or now
  L.f = true
end
