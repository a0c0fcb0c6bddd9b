-- A leg that finds no room waits until there is some. Needs room.
local MAX_ROOMS = 16

-- Where there is room for some of those that stand before it, or anywhere in a queue, one of them is told. False: nobody is left there.
local function pass_on(r, p, name, most)
  local full, left = filled(r, p, nobody)
  return full ~= nil or wake(name, math.min(left, most))
end

-- Who is about to take room stands in every queue for it, so that nobody who comes meanwhile takes it. The first of them.
local function stand_for(r, p, names)
  local first = #names + 1
  if (p.max_agent or 0) > 0 then names[#names + 1] = p.agent .. ':all' end
  if (p.max_inbox or 0) > 0 then
    names[#names + 1] = p.agent .. ':' .. r.head.la
    names[#names + 1] = p.agent .. ':of:' .. tostring(r.head.s)
  end
  return names[first] or p.agent .. ':'
end

-- Where one of these has got room meanwhile it decides anew at once (true). Where there is some for those before it, they are told.
local function queue_up(r, l, L, rooms)
  local names, free = {}, nil
  for i = 1, math.min(#(rooms or {}), MAX_ROOMS) do
    local why, _, name, n = obstacle(r, rooms[i], L, l)
    local room = not why or (why == 'full' and n > 0 and not pass_on(r, rooms[i], name, n))
    if room and not free then free = stand_for(r, rooms[i], names)
    elseif name and not room then names[#names + 1] = name end
  end
  local told, left = L.wa, L.wr
  L.wr, L.wa = nil, nil
  for _, name in ipairs(left or {}) do
    local stays = false
    for _, other in ipairs(names) do stays = stays or other == name end
    if not stays then
      redis.pcall('ZREM', ROOM .. name, member(r, l))
      if told == name then wake(name) end
    end
  end
  for _, name in ipairs(names) do
    sure('ZADD', ROOM .. name, place_in_line(r.head), member(r, l))
    call('PEXPIREAT', ROOM .. name, expires(r.head), 'NX')
    call('PEXPIREAT', ROOM .. name, expires(r.head), 'GT')
  end
  if #names > 0 then L.wr = names end
  if not free then return false end
  L.u, L.wa = now, free
  again(r, l, L)
  return true
end

-- It goes there, and has waited for that: where there is still room, others are told of it.
local function served(r, l, L, p)
  local names = L.wr or {}
  unqueue(r, l, L, p.agent)
  for _, name in ipairs(names) do
    if string.match(name, '^[^:]*') == p.agent then pass_on(r, p, name, MAX_TOLD) end
  end
end
