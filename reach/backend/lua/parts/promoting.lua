-- Who has little in an inbox does not wait behind who has much: at its first hand-over such a message goes one lane up. Needs lanes, sharing,
-- closing. docs/decisions/0015
local FEW, MANY, MAX_SENDERS = 4, 32, 256
local ABOVE = {low = 'normal', normal = 'high'}

-- Whether one sender has much there, and this one little.
local function outnumbered(r, agent)
  local key = share_key(agent)
  if said(key, r.head.s) >= FEW then return false end
  local senders = redis.pcall('HLEN', key)
  if type(senders) ~= 'number' or senders == 0 or senders > MAX_SENDERS then return false end
  for _, n in ipairs(call('HVALS', key)) do
    if (number(n) or 0) >= MANY then return true end
  end
  return false
end

-- Only at the first one: afterwards its hand is an id of that lane, and ids are unique within one lane only.
local function promote(r, L, agent)
  local lane = ABOVE[r.head.la]
  if r.all or not lane or not string.find(L.h or '0', '^0') then return end
  if call('XLEN', inbox(r, agent)) < MANY or not outnumbered(r, agent) then return end
  local key = P .. 'inbox:' .. agent .. ':' .. lane
  if readable(key) and call('XLEN', key) < MANY then r.head.la = lane end
end
