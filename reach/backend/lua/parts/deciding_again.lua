-- An entry of the internal door: what happened stands in the ledger, so a forged or doubled reference does nothing. Needs moving, raising, sending.
local function asks(r, L, d)
  if not L or (L.h or '0') ~= d.h then return false end
  if L.st == 'held' then
    if r.all then return is_free(r, (stage_of(r, d.l))) end
    return line(r) and first(line(r)) == d.m
  end
  return L.st == 'returned' or L.st == 'queued' or (L.st == 'waiting' and (L.u or 0) <= now)
end

-- A stage goes on: all its held legs at once, each by its own plan. What has no plan here is called once more.
local function release_stage(r, d)
  local first_to_do_it = acknowledge(d)
  if not first_to_do_it then return {'skipped'} end
  local e = bytes(r, leg(r, d.l))
  local risen, out = raised(r, d), {'done', ''}
  for i, l in ipairs(d.ls) do
    local L = leg(r, l)
    if L and L.st == 'held' then
      L.q, L.ta = now, (r.head.xa or 0) > r.head.ta and r.head.xa or nil
      if e or d.p[i].act == 'finish' then out[#out + 1] = place(r, l, L, adjusted(r, d.p[i]), e)
      else lapse(r, l, L, 'expired', 'backend.unavailable', 'the bytes of the message are lost') end
    end
    if not out[i + 2] then out[i + 2] = '' end
  end
  local _, S = stage_of(r, d.l)
  if S then call_stage(r, S) end
  save(r)
  if risen then tell(r) end
  return out
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
  if L.st == 'held' and r.all then return release_stage(r, d) end
  local why, told = obstacle(r, p, L, d.l)
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
