-- One entry with an id of the far future would make every later XADD fail, or hide later entries from the group: wind the stream back.
local function ahead(id) return (tonumber(string.match(id, '^%d+')) or 0) > now + 60000 end

local function rewind(key, group)
  local id = now .. '-0'
  local v = redis.pcall('XSETID', key, id)
  if type(v) == 'table' and v.ok then
    redis.pcall('XGROUP', 'SETID', key, group, id)
    return
  end
  -- Newer servers never go below a deleted id: the stream is made anew, as soon as little is left in it. What is left gets new ids;
  -- whoever holds an old one finds nothing to acknowledge. Not so in an inbox, where the id is the hand: it has to be empty.
  local rest = redis.pcall('XRANGE', key, '-', '+', 'COUNT', 101)
  if rest.err or #rest > (group == 'agent' and 0 or 100) then return end
  call('DEL', key)
  call('XGROUP', 'CREATE', key, group, '0', 'MKSTREAM')
  -- By pcall: an entry with more fields than Lua has room for was nobody's but a stranger's, and goes.
  for _, entry in ipairs(rest) do pcall(function() call('XADD', key, '*', unpack(entry[2])) end) end
end
