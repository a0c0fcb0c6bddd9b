-- The legs of a broadcast that wait for their stage, and those that only observe. Needs releasing, lanes, closing, giving_back, sharing.

-- Its ttl bounds the first hand-over of the message, which is that of its first stage.
local function hold_stage(r, l, L, e)
  L.st, L.re, L.f = 'held', nil, true
  if call('TYPE', P .. 'env:' .. r.m).ok ~= 'string' then keep(r, e) end
  arm(r, L, ends(r, L))
end

-- It has its entry where there is room for it, and ends at once without a receipt: no handler runs. e nil: what was cancelled before it came.
local function observe(r, l, L, p, e)
  L.a, L.st, L.fi = p.agent, 'observed', now
  touch(r, l)
  if not e then return end
  local key, max, most = inbox(r, p.agent), p.max_inbox or 0, p.max_agent or 0
  if not readable(key) or (max > 0 and untaken(key, max) >= max) or (most > 0 and lying_with(p.agent) >= most) then return end
  local a = {'m', r.m, 'l', l, 'x', ends(r, L), 'a', 0, 'o', 1}
  if not is_large(r, e) then a[#a + 1], a[#a + 2] = 'e', e else r.head.ob = true end
  local id = add(key, 'NOMKSTREAM', '*', unpack(a))
  if type(id) == 'string' then L.h = id end
end

-- What becomes of a leg of a broadcast beside its plan: it observes, or waits for its stage. A stage may be free where its router thought
-- otherwise: then it asks anew.
local function staged(r, l, L, p, e)
  if p.act == 'observe' then
    observe(r, l, L, p, e)
    return true
  end
  if p.act ~= 'deliver' and p.act ~= 'delay' and p.act ~= 'hold' then return false end
  if not is_free(r, (stage_of(r, l))) then
    hold_stage(r, l, L, e)
    return true
  end
  if p.act == 'hold' then p.act, p.wait_ms = 'delay', 0 end
  return false
end
