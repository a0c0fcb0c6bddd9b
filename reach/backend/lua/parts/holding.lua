-- Who is not the first in its line is held: it is in no inbox, needs no room, and asks again when the one before it has ended.
-- Needs lining, closing, giving_back, observing.

-- Whether a plan for it would end in `held`. L nil: it has not come yet.
local function behind(r, L)
  local key = line(r)
  local m = key and first(key)
  return key and m ~= r.m and (m or (L and L.jn)) and true or false
end

local function hold(r, l, L, e)
  if L.st == 'new' then L.a = nil end
  L.st, L.re = 'held', nil
  if call('TYPE', P .. 'env:' .. r.m).ok ~= 'string' then keep(r, e) end
  arm(r, L, now + 3000)
end

-- Every hand-over comes by here. held: it is; overloaded: its line has no room. What is not to go before a moment joins when it is due.
local function held_back(r, l, L, p, e)
  if r.all then return staged(r, l, L, p, e) and '' or nil, L.st == 'observed' and L.h or nil end
  local key = line(r)
  if not key or L.st == 'queued' or (p.act ~= 'deliver' and p.act ~= 'delay') then return nil end
  if not L.jn then
    if p.act == 'delay' and (r.head.nb or 0) > now then return nil end
    if not join(r, L) then
      lapse(r, l, L, 'done', 'overloaded', 'its order_key has ' .. MAX_LINE .. ' messages waiting', L.st == 'new')
      return 'overloaded'
    end
  end
  if first(key) == r.m then
    if L.st == 'held' then L.q = now end -- from now on somebody is looked for
    return nil
  end
  hold(r, l, L, e)
  return 'held'
end
