-- Who waits for room at an agent stands in a queue for the bound that has refused it, zset room:<agent>:<bound>: a lane, `all` lanes, or
-- `of:<sender>`. Higher lanes first, then the oldest. Needs healing, record. docs/decisions/0029
local ROOM, MAX_TOLD = P .. 'room:', 16

local function member(r, l) return r.m .. '/' .. l end

-- Whether this is one who waits there; then its record and leg.
local function waiter(who, name)
  local m, l = string.match(who, '^(.+)/(%d+)$')
  local r = m and load(m)
  local L = r and not r.head.tomb and leg(r, number(l))
  if not L or L.st ~= 'waiting' or type(L.wr) ~= 'table' then return nil end
  for _, mine in ipairs(L.wr) do
    if mine == name then return r, number(l), L end
  end
end

-- Room has come: it is told to one, the first (of the first `most`) that has been told of none; where that one sleeps, it decides anew.
-- Whom nobody knows any more is dropped. False: nobody is left there. What is lost is made good when the leg looks again by itself.
local function wake(name, most)
  local key, i = ROOM .. name, 0
  for _ = 1, 2 * MAX_TOLD do
    local found = i < (most or MAX_TOLD) and redis.pcall('ZRANGE', key, i, i) or {}
    if found.err or not found[1] then return i > 0 end
    local r, l, L = waiter(found[1], name)
    if not r then redis.pcall('ZREM', key, found[1])
    elseif L.wa then i = i + 1
    else
      if (L.u or 0) > now then surely(P .. 'again', '*', 'm', r.m, 'l', l, 'h', L.h or '0') end
      L.u, L.wa = math.min(L.u or 0, now), name
      touch(r, l)
      save(r)
      return true
    end
  end
  return true
end

-- An entry has left the inbox. One call where nobody waits, as nearly always.
local function entry_gone(agent)
  if call('EXISTS', ROOM .. agent .. ':all') > 0 then wake(agent .. ':all') end
end

-- A leg has left `queued`: it is taken, or goes.
local function less_queued(agent, lane, sender)
  local one, mine = agent .. ':' .. lane, agent .. ':of:' .. tostring(sender)
  if call('EXISTS', ROOM .. one, ROOM .. mine) == 0 then return end
  wake(one)
  wake(mine)
end

-- It waits there no more. Room of which it was told, and which it does not take (`to`: the agent it goes to), is the next one's.
local function unqueue(r, l, L, to)
  local told = L.wa
  for _, name in ipairs(L.wr or {}) do redis.pcall('ZREM', ROOM .. name, member(r, l)) end
  L.wr, L.wa = nil, nil
  if told and string.match(told, '^[^:]*') ~= to then wake(told) end
end
