-- Acknowledging the entry of a decision, and what becomes of a decision that fails after it: nobody holds its entry any more. Needs placing.
local function acknowledge(d)
  if call('XACK', d.x, 'routers', d.id) == 0 then return false end
  d.acked = true
  return true
end

-- Of a send that failed half-way every leg that is open ends in the ledger: a repeat of it runs nothing. The first that ended so.
local function end_all(r, why)
  local first
  r.still = true
  for l = 0, r.head.ls - 1 do
    local L = r.legs[l] or {st = 'new'}
    r.legs[l] = L
    if not L.fi then
      lapse(r, l, L, 'done', 'backend.unavailable', why, true)
      first = first or l
    end
  end
  save(r)
  return first
end

-- Into the dead letters, and whoever waits is told. Of a leg that failed half-way only what was saved counts: it ends.
local function rescue(d, e, why)
  local m, receipt, h = d.m, d.re, nil
  if d.k == 'r' then
    m, receipt, h = d.d.m, d.d.r or d.re, d.d.h
    if d.r ~= '' then post(d.r, 'r', d.re) end
  elseif d.k == 's' then
    local told = 'it could not be routed: ' .. string.sub(why, 1, 300)
    local ok, l = pcall(end_all, d.opened, told)
    if ok and l then
      receipt = text(d.opened, l, d.opened.legs[l], false)
    else
      receipt = text({head = d.H}, 0, {rc = made('retryable', 'backend.unavailable', told).core}, false)
      if d.r ~= '' then post(d.r, 'r', receipt) end
    end
  else
    local r = load(m)
    local L = r and not r.head.tomb and leg(r, d.l)
    e = r and L and bytes(r, L) or d.bytes
    if L and not L.fi then
      lapse(r, d.l, L, 'expired', 'backend.unavailable', 'it could not be routed: ' .. string.sub(why, 1, 300), true)
      save(r)
      if L.ba then return end -- a success is no dead letter
      receipt, h = text(r, d.l, L, false), history(L)
    end
  end
  letter(m, e, receipt, h)
end
