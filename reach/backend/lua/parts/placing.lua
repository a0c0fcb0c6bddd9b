-- Carries out a plan for a leg: deliver, delay, finish. Needs lanes, record, sharing, closing, giving_back, holding, queueing; `max_dead` from route.

local function append(r, l, L, agent, e)
  local a = {'m', r.m, 'l', l, 'x', L.f and ends(r, L) or math.min(r.head.fa, ends(r, L)), 'a', (L.n or 0) + 1}
  if not is_large(r, e) then
    a[#a + 1] = 'e'
    a[#a + 1] = e
  end
  return add(inbox(r, agent), 'NOMKSTREAM', '*', unpack(a))
end

local function letter(m, e, r, h)
  return surely(P .. 'dead', 'MAXLEN', max_dead, '*', 'm', m or '', 'e', e or '', 'r', r or '', 'h', h or '[]')
end

local function history(L) return '[' .. table.concat(L.hi or {}, ',') .. ']' end

local function bury(r, l, L, e)
  measure(r, L)
  L.as = L.n
  return letter(r.m, e, text(r, l, L, false), history(L))
end

local function put(r, l, L, p, e)
  r.legs[l] = L
  touch(r, l)
  local instead, shown = held_back(r, l, L, p, e)
  if instead then return shown or '', instead end
  if p.act == 'deliver' then
    promote(r, L, p.agent)
    local id = append(r, l, L, p.agent, e)
    L.a = p.agent
    if type(id) ~= 'string' then
      L.rc = nil
      lapse(r, l, L, 'done', 'agent.lost', 'the inbox of ' .. p.agent .. ' is gone')
      return ''
    end
    L.st, L.h, L.q, L.re, L.w, L.se, L.i, L.vi = 'queued', id, now, nil, nil, nil, nil, p.via
    shared(r, p.agent)
    handed(p.agent, r.m, l, id)
    arm(r, L, now + math.min(r.head.ne, 15000)) -- somebody may have it by then, and die
    return id
  elseif p.act == 'delay' then
    L.st, L.u = 'waiting', math.max(now + (p.wait_ms or 0), r.head.nb or 0) -- by whose clock it is decided may be ahead
    if call('TYPE', P .. 'env:' .. r.m).ok ~= 'string' then keep(r, e) end
    arm(r, L, queue_up(r, l, L, p.rooms) and now + 3000 or L.u)
  else
    if p.agent and p.agent ~= '' then L.a = p.agent end
    remember(L, p.answer)
    if p.dead and not L.b then p.answer.details = with(L.dt, '"dead_letter":"' .. bury(r, l, L, e) .. '"') end
    close(r, l, L, 'done', p.answer)
  end
  return ''
end

local function place(r, l, L, p, e)
  local id, known = put(r, l, L, p, e)
  if L.wr and L.st == 'queued' then served(r, l, L, p)
  elseif L.wr and L.st ~= 'waiting' then unqueue(r, l, L) end
  return id, known
end

-- Tells a mailbox what has become of the message; `extra` is a JSON object whose members are added.
local function routed(r, box, extra)
  local a = {}
  for l = 0, r.head.ls - 1 do
    local L = leg(r, l)
    a[l + 1] = '{"leg":' .. l .. ',"agent":' .. quoted(L and L.a) .. part_of(r, l, L) .. '}'
  end
  post(box, 'n', with(extra ~= '' and extra or '{}', '"notice":"routed","msg_id":"' .. r.m .. '","round":' .. (r.head.ro or 1) ..
    ',"scope":"' .. r.head.sc .. '","legs":[' .. table.concat(a, ',') .. ']' .. order_of(r) .. ',"processing_ms":' .. r.head.pr .. ',"total_ms":' .. r.head.to))
end
