-- An entry of the internal door: what happened stands in the ledger, so a forged or doubled reference does nothing. Needs moving, raising.
local function asks(r, L, d)
  if not L or (L.h or '0') ~= d.h then return false end
  if L.st == 'held' then return line(r) and first(line(r)) == d.m end
  return L.st == 'returned' or L.st == 'queued' or (L.st == 'waiting' and (L.u or 0) <= now)
end

local function decided(d)
  local r = load(d.m)
  local L = r and not r.head.tomb and leg(r, d.l)
  local p = d.p[1]
  if not asks(r, L, d) then return {acknowledge(d) and 'done' or 'skipped', 'silent'} end
  if L.st ~= d.s or (L.n or 0) ~= d.n then return {'changed'} end
  if L.st == 'queued' then
    local go = p.act == 'move' and (p.free or (L.mv or 0) < 2) and undelivered(r, L)
    if not go then return {acknowledge(d) and 'done' or 'skipped', 'stay'} end
  elseif p.act == 'move' or p.act == 'stay' then
    return {'changed'}
  end
  local why, told = obstacle(r, p, L)
  if why then return {why, told} end
  if crowded(r, p) then return {'full'} end
  if not acknowledge(d) then return {'skipped'} end
  local risen = raised(r, d)
  local e = bytes(r, L)
  d.bytes = e
  if p.act == 'move' then
    leave(r, L, p)
    p.act = 'deliver'
  end
  local id, known = '', nil
  if not e and p.act ~= 'finish' then
    lapse(r, d.l, L, 'expired', 'backend.unavailable', 'the bytes of the message are lost')
  else
    id, known = place(r, d.l, L, p, e)
    if L.st == 'queued' and not r.all then call('DEL', P .. 'env:' .. d.m) end
  end
  save(r)
  if risen then tell(r) end
  return {'done', known or '', id}
end
