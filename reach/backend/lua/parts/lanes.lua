-- The lanes of an inbox. Needs start.

-- Makes the group of a lane that has lost it, at its start so that nothing in it is missed. False: there is no such lane. Asking for no
-- pending entries is the cheapest question that a group is needed for.
local function readable(key)
  local v = redis.pcall('XPENDING', key, 'agent', '-', '+', 0)
  if not v.err then return true, false end
  local made = not redis.pcall('XGROUP', 'CREATE', key, 'agent', '0').err
  return made, made
end

-- How much lies in a lane that nobody has been given yet; where it is fewer than `few` in any case, how much lies there at all.
local function untaken(key, few)
  local n = call('XLEN', key)
  if n < few then return n end
  local pending = redis.pcall('XPENDING', key, 'agent')
  return pending.err and n or n - pending[1]
end
