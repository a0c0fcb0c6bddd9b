-- Offers an inbox entry to an instance: it runs, or the entry goes. Needs healing, record, sharing, closing; `agent`, `instance`, `free`, `out`,
-- `size_bytes`, `looks`, `expired` and the bounds from take.
local function room() return #out < free and size_bytes < MAX_TAKEN_BYTES and looks < MAX_LOOKS end

local function discard(lane, id)
  redis.pcall('XACK', lane.key, 'agent', id)
  redis.pcall('XDEL', lane.key, id)
end

-- What the next run is given: the state that the handler saved, and the answers; '' where there are none.
local function answers(L)
  if not L.sv and not L.qa then return '' end
  local told = {}
  for i, one in ipairs(L.qa or {}) do told[i] = '{"prompt":"' .. one.p .. '","value":' .. one.v .. ',"agent":"' .. (one.a or '') .. '"}' end
  return '{"state":' .. (L.sv or 'null') .. ',"answers":[' .. table.concat(told, ',') .. ']}'
end

-- A copy for who only observes: nobody answers for it, so it goes as it is handed over.
local function show(lane, id, r, l, L, e)
  discard(lane, id)
  if now >= ends(r, L) or type(e) ~= 'string' then return end
  out[#out + 1] = {lane.name, id, r.m, l, 0, e, ends(r, L), r.head.pr, '', 'o'}
  size_bytes = size_bytes + #e
end

local function offer(lane, entry, resumed)
  local id, f = entry[1], {}
  for i = 1, #(entry[2] or {}), 2 do f[entry[2][i]] = entry[2][i + 1] end
  local r = f.m and load(f.m)
  local l = number(f.l)
  local L = r and not r.head.tomb and leg(r, l)
  -- The id alone proves nothing: another lane, or another agent's, may have the same.
  local named = L and L.h == id and inbox(r, L.a or '') == lane.key
  if named and L.st == 'observed' then return show(lane, id, r, l, L, f.e or redis.pcall('GET', P .. 'env:' .. f.m)) end
  local mine = named and (L.st == 'queued' or (resumed and L.st == 'running' and L.i == instance))
  if named and L.st == 'running' and not resumed and (L.i or '') ~= '' then
    -- Only a lane that has lost its group gives an entry out twice: it is again pending to whoever runs it, who renews it, or not.
    redis.pcall('XCLAIM', lane.key, 'agent', L.i, 0, id, 'JUSTID')
    return
  end
  local late = mine and (now >= ends(r, L) or (not L.f and now >= r.head.fa))
  local e = f.e or (mine and redis.pcall('GET', P .. 'env:' .. f.m))
  if mine and not late and L.st == 'queued' and barred(agent, f.m, l, id) then
    expired = expired + (back(r, l, L, false, '', nil, 0) and 0 or 1)
    return save(r)
  end
  if mine and not late and type(e) == 'string' then
    unshared(r, L)
    L.st, L.i, L.tk, L.al, L.f = 'running', instance, L.tk or now, now, true
    touch(r, l)
    save(r)
    out[#out + 1] = {lane.name, id, f.m, l, (L.n or 0) + 1, e, ends(r, L), r.head.pr, answers(L), ''}
    size_bytes = size_bytes + #e
    return
  end
  discard(lane, id)
  if mine then
    if not late then lapse(r, l, L, 'expired', 'backend.unavailable', 'the bytes of the message are lost')
    elseif now >= ends(r, L) then lapse(r, l, L, 'expired', 'timeout.total', 'its total time was over before it was taken')
    else lapse(r, l, L, 'expired', 'ttl.expired', 'its ttl was over before the first hand-over') end
    save(r)
    expired = expired + 1
  end
  if ahead(id) then rewind(lane.key) end
end

-- Anybody can write into an inbox. An entry that raises is of no use to anybody and goes: else each take would stop at it.
local function hand_over(lane, entry, resumed)
  looks = looks + 1
  if not pcall(offer, lane, entry, resumed) then discard(lane, entry[1]) end
end
