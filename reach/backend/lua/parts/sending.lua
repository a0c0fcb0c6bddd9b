-- An ingress entry: a new message, a duplicate, or the send that meets the tombstone of its cancel. Needs placing.
local function answer(d, status, code, message)
  if d.r ~= '' then
    post(d.r, 'r', text({head = d.H}, 0, {rc = made(status, code, message)}, false))
  end
end

local function duplicate(r, d)
  local H = r.head
  if H.fp ~= d.H.fp or H.s ~= d.H.s then
    answer(d, 'failed', 'envelope.id_conflict', 'another message has this msg_id')
    return {'done', 'conflict'}
  end
  if d.r == '' then return {'done', 'duplicate'} end
  H.rt = H.rt or {}
  local there = false
  for _, box in ipairs(H.rt) do there = there or box == d.r end
  if not there then
    if #H.rt >= 4 then
      answer(d, 'retryable', 'overloaded', 'four callers wait for this message already')
      return {'done', 'overloaded'}
    end
    H.rt[#H.rt + 1] = d.r
    save(r)
  end
  routed(r, d.r, d.o)
  for l = 0, H.ls - 1 do
    local L = leg(r, l)
    if L.fi then post(d.r, 'r', text(r, l, L, true)) end
  end
  return {'done', 'duplicate'}
end

-- Scope all goes on without a leg whose inbox is missing, and lets one wait whose inbox is full.
local function adjusted(r, p)
  local why = obstacle(r, p)
  if why == 'full' then return {act = 'delay', agent = p.agent, wait_ms = 1000} end
  return p
end

local function send(d, e)
  local old = load(d.m)
  if old and not old.head.tomb then
    if call('XACK', d.x, 'routers', d.id) == 0 then return {'skipped'} end
    return duplicate(old, d)
  end
  local H = d.H
  local r = {m = d.m, key = P .. 'm:' .. d.m, head = H, legs = {}, dirty = {}, all = H.sc == 'all' or nil}
  if not r.all then
    local why = obstacle(r, d.p[1])
    if why then return {why} end
  end
  if call('XACK', d.x, 'routers', d.id) == 0 then return {'skipped'} end
  H.at = math.min(tonumber(string.match(d.id, '^%d+')), now)
  local from = math.max(H.at, H.nb or 0)
  H.fa, H.ta, H.op, H.ls = from + H.tt, from + H.to, #d.p, #d.p
  if d.r ~= '' then H.rt = {d.r} end
  call('DEL', r.key, P .. 'env:' .. d.m)
  local out = {'done', ''}
  for i, p in ipairs(d.p) do
    local L = {st = 'new'}
    if old and old.head.s == H.s and (H.ro or 1) <= (old.head.ro or 1) then
      r.legs[i - 1] = L
      lapse(r, i - 1, L, 'done', 'cancelled', 'cancelled before it was routed')
      out[2] = 'tombstone'
    else
      if r.all and #e * H.ls > 65536 and i == 1 then keep(r, e) end
      if p.agent and p.agent ~= '' then L.a = p.agent end
      out[#out + 1] = place(r, i - 1, L, r.all and adjusted(r, p) or p, e)
    end
  end
  save(r)
  if d.o ~= '' and d.r ~= '' then routed(r, d.r, d.o) end
  return out
end
