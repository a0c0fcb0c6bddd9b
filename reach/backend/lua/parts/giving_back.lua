-- Gives a leg back for a new decision: the bytes move from the inbox entry to env, an `again` asks a router. Needs record, wording, closing.
local function bytes(r, L)
  local e = redis.pcall('GET', P .. 'env:' .. r.m)
  if type(e) == 'string' then return e, true end
  if L.a and L.a ~= '' and L.h and L.h ~= '0' then
    local x = redis.pcall('XRANGE', inbox(r, L.a), L.h, L.h)
    local f = not x.err and x[1] and x[1][2] or {}
    for i = 1, #f, 2 do if f[i] == 'e' then return f[i + 1], false end end
  end
  return nil
end

-- A broadcast whose bytes lie once in env, and not in every inbox.
local function is_large(r, e) return r.all and #e * r.head.ls > 65536 end

local function keep(r, e)
  call('SET', P .. 'env:' .. r.m, e, 'PXAT', expires(r.head))
end

-- Another agent first, whose probe does not fail. Once each: such returns are bounded by total alone.
local function unreached(L)
  L.tr = L.tr or {}
  for _, a in ipairs(L.tr) do if a == L.a then return end end
  L.tr[#L.tr + 1] = L.a
end

-- burn: the run counts as an attempt. wait: ms that Retry(after) asked for. answer: nil = the last one stays. told: the caller of the step is told
-- if it ends with its best answer.
local function back(r, l, L, burn, code, answer, wait, told)
  told = told and L.b
  if L.b and (burn or L.st == 'running') then -- another was asked, once: however that ended, the best answer stands
    close(r, l, L, 'done', answer or {}, true)
    if not told then untold_end(r, l, L) end
    return false
  end
  local e, kept = bytes(r, L)
  measure(r, L)
  if not e then
    lapse(r, l, L, 'expired', 'backend.unavailable', 'the bytes of the message were lost with its inbox entry', told)
    return false
  end
  if not kept then keep(r, e) end
  if burn then
    L.n, L.mv, L.lf, L.fr = (L.n or 0) + 1, nil, nil, nil
    L.hi = L.hi or {}
    L.hi[#L.hi + 1] = '{"attempt":' .. L.n .. ',"agent":' .. quoted(L.a) .. ',"code":' .. quoted(code) .. ',"at":' .. now .. '}'
    L.tr = L.tr or {}
    L.tr[#L.tr + 1] = L.a
  elseif wait then
    L.fr = (L.fr or 0) + 1
    if code == 'probe.failed' then unreached(L) end
  end
  if answer then remember(L, answer) end
  unshared(r, L)
  drop(r, L)
  L.st, L.tk, L.al, L.re, L.w = 'returned', nil, nil, nil, wait
  touch(r, l)
  again(r, l, L)
  arm(r, L, now + 3000)
  return true
end
