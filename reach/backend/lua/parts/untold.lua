-- What nobody records who was there is told to the routers, at a door of theirs, and recorded by one. Needs healing, record, wording.
-- Of an end, or (began: since when) of a run that has an answer with it.
local function untold(r, l, L, code, attempt, began, by, instance)
  surely(P .. 'receipts', '*', 'm', r.m, 'l', l, 'h', L.h or '0', 't', '{"at":' .. string.format('%.0f', clock[1] * 1000000 + clock[2]) ..
    (began and ',"began":' .. string.format('%.0f', began * 1000) or '') .. ',"round":' .. (r.head.ro or 1) .. ',"attempt":' .. attempt ..
    ',"agent":' .. quoted(by) .. ',"instance":' .. quoted(instance) .. ',"code":' .. quoted(code) .. ',"status":' .. quoted(L.ss) ..
    ',"ended":' .. tostring(L.fi ~= nil) .. '}')
end

-- A leg that was handed over is ended in its next run; a hand that begins with 0 is of one that nobody has had.
local function untold_end(r, l, L)
  local run = (L.ba or string.sub(L.h or '0', 1, 1) == '0') and 0 or 1
  untold(r, l, L, L.cd, (L.n or 0) + run, nil, L.ba or L.a, L.ba and L.bi or L.i)
end
