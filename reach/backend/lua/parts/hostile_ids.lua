-- One entry with an id of the far future would make every later XADD fail, or hide later entries from the group: wind the stream back.
local function ahead(id) return tonumber(string.match(id, '^%d+')) > now + 60000 end

local function rewind(key, group)
  local id = now .. '-0'
  local v = redis.pcall('XSETID', key, id)
  if type(v) == 'table' and v.ok then redis.pcall('XGROUP', 'SETID', key, group, id) end
end
