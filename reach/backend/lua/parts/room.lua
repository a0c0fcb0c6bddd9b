-- Whether there is room at an agent, and who waits for it. Needs waking, lanes, sharing, closing, circuits, holding.
local LANE = {high = 0, normal = 2 ^ 42, low = 2 ^ 43} -- above every moment

local function place_in_line(H) return (LANE[H.la] or 0) + (H.at or now) end

-- How many stand in a queue before this leg: those of its lane that are as old, and all of higher lanes.
local function before(r, l, L, name)
  local n = L and L.wr and redis.pcall('ZRANK', ROOM .. name, member(r, l))
  if type(n) == 'number' then return n end
  n = redis.pcall('ZCOUNT', ROOM .. name, '-inf', place_in_line(r.head))
  return type(n) == 'number' and n or 0
end

local function nobody() return 0 end

-- Which bound leaves no room, with so many before it: its queue, what is told of it, and how many they are. nil: there is room, for so many.
local function filled(r, p, ahead)
  local a, max, left = p.agent, p.max_inbox or 0, math.huge
  local one, all, mine = a .. ':' .. r.head.la, a .. ':all', a .. ':of:' .. tostring(r.head.s)
  if (p.max_agent or 0) > 0 then
    local n = ahead(all)
    left = p.max_agent - lying_with(a) - n
    if left <= 0 then return all, 'agent', n end
  end
  if max > 0 then
    local n = ahead(one)
    left = math.min(left, max - untaken(inbox(r, a), max - n) - n)
    if left <= 0 then return one, '', n end
  end
  if max > 0 then
    local n = ahead(mine)
    if share_taken(r, a, math.ceil(max / 2) - n) then return mine, 'share', n end
  end
  return nil, left
end

-- Looked at before anything is written (but for a group that was lost): nil, or why the plan cannot be carried out;
-- full: with 'share' where it is only for this sender, 'agent' where the agent has as much as it may. Who waits counts as if it lay there.
local function obstacle(r, p, L, l)
  if p.act ~= 'deliver' and p.act ~= 'move' or (p.act == 'deliver' and behind(r, L)) then return nil end
  if not readable(inbox(r, p.agent)) then return 'gone' end
  local key = ROOM .. p.agent
  local some = call('EXISTS', key .. ':' .. r.head.la, key .. ':all', key .. ':of:' .. tostring(r.head.s)) > 0
  local name, told, n = filled(r, p, some and function(queue) return before(r, l, L, queue) end or nobody)
  if name then return 'full', told, name, n end
  local wait = shut_ms(p.agent)
  if wait then return 'open', tostring(wait) end
end
