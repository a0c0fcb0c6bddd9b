-- Carries out a plan for a leg: deliver, delay, finish. Needs lanes, record, sharing, closing, giving_back, holding; `max_dead` from route.

-- Looked at before anything is written (but for a group that was lost): nil, or why the plan cannot be carried out;
-- full: with 'share' where it is only for this sender, 'agent' where the agent has as much as it may.
local function obstacle(r, p, L)
  if p.act ~= 'deliver' and p.act ~= 'move' or (p.act == 'deliver' and behind(r, L)) then return nil end
  local key = inbox(r, p.agent)
  if not readable(key) then return 'gone' end
  local n = call('XLEN', key)
  local max = p.max_inbox or 0
  if max > 0 and n >= max then return 'full' end
  if (p.max_agent or 0) > 0 and lying_with(p.agent) >= p.max_agent then return 'full', 'agent' end
  if max > 0 and share_taken(r, p.agent, max) then return 'full', 'share' end
  local wait = shut_ms(p.agent)
  if wait then return 'open', tostring(wait) end
end

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

local function place(r, l, L, p, e)
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
    L.st, L.u = 'waiting', now + (p.wait_ms or 0)
    if call('TYPE', P .. 'env:' .. r.m).ok ~= 'string' then keep(r, e) end
    arm(r, L, L.u)
  else
    if p.agent and p.agent ~= '' then L.a = p.agent end
    remember(L, p.answer)
    if p.dead and not L.b then p.answer.details = with(L.dt, '"dead_letter":"' .. bury(r, l, L, e) .. '"') end
    close(r, l, L, 'done', p.answer)
  end
  return ''
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
