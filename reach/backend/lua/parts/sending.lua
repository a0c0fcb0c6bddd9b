-- An ingress entry: a new message, the send that meets the tombstone of its cancel, or a new round. Needs placing, rescuing, duplicates.

-- Scope all goes on without a leg whose inbox is missing, and lets one wait whose inbox is full or whose circuit is open.
local function adjusted(r, p)
  local why = obstacle(r, p)
  if why == 'full' or why == 'open' then return {act = 'delay', agent = p.agent, wait_ms = 1000, rooms = why == 'full' and {p} or nil} end
  return p
end

local function send(d, e)
  local old, tomb = load(d.m), nil
  if old and old.head.tomb then old, tomb = nil, old.head.tomb end
  if old and not reopens(old, d) then
    if not acknowledge(d) then return {'skipped'} end
    return duplicate(old, d)
  end
  local H = d.H
  local r = {m = d.m, key = P .. 'm:' .. d.m, head = H, legs = {}, dirty = {}, all = H.sc == 'all' or nil}
  H.at = math.min(tonumber(string.match(d.id, '^%d+')), now)
  local bound = over_bound(H.s, d.mo, d.ms)
  if bound then return {'full', bound} end
  if not r.all then
    local why, told = obstacle(r, d.p[1])
    if why then return {why, told} end
  end
  if not acknowledge(d) then return {'skipped'} end
  local from = math.max(H.at, H.nb or 0)
  H.fa, H.ta = from + H.tt, from + H.to
  if d.r ~= '' then H.rt = {d.r} end
  local todo
  todo, H.ls, H.op = to_open(r, d, old)
  d.opened = r
  if d.mo + d.ms > 0 then counted_in(r) end
  call('DEL', r.key, P .. 'env:' .. d.m)
  -- Cancelled before it came: by a tombstone of its sender (what others had buried goes: the message is not theirs), or in the record.
  local stopped = tonumber(tomb and tomb[H.s] or (old and old.head.sp)) or 0
  local cancelled = (H.ro or 1) <= stopped
  if is_large(r, e) and not cancelled then keep(r, e) end
  local out = {'done', cancelled and 'tombstone' or ''}
  for _, t in ipairs(todo) do
    -- In a new round the hand is a fresh token that no entry has: nothing of the former round matches it.
    local L = {st = 'new', h = old and '0-' .. H.ro or nil}
    if t.a and t.a ~= '' and (r.legs[t.l] or not cancelled) then L.a = t.a end
    r.legs[t.l], t.L = L, L
  end
  r.still = cancelled
  for _, t in ipairs(todo) do
    local L = t.L
    if L.fi then -- its stage has been ended
      out[#out + 1] = ''
    elseif cancelled and t.p and t.p.act == 'observe' then
      observe(r, t.l, L, t.p)
    elseif cancelled then
      lapse(r, t.l, L, 'done', 'cancelled', 'cancelled before it was routed', true)
    elseif t.p then
      local id, known = place(r, t.l, L, r.all and is_free(r, (stage_of(r, t.l))) and adjusted(r, t.p) or t.p, e)
      out[#out + 1], out[2] = id, known or out[2]
    else
      lapse(r, t.l, L, 'done', 'agent.lost', 'its agent is not among those that fit any more')
      out[#out + 1] = ''
    end
  end
  for _, b in ipairs(old and not r.still and hopeless(r) or NONE) do close(r, b[1], leg(r, b[1]), 'done', made('failed', 'stage.failed', BEHIND, b[2])) end
  save(r)
  -- By pcall: from here on the message lives, whoever can or cannot be told of it.
  if d.o ~= '' and d.r ~= '' then pcall(routed, r, d.r, d.o) end
  if old and r.all and d.r ~= '' then pcall(stored, r, d.r, todo) end
  return out
end
