-- Streams whose ids lie in the far future: later entries hide from who reads, and behind the last possible id there is none. Needs start.
local LAST_ID = '18446744073709551615-18446744073709551615'
local MAX_KEPT, MAX_KEPT_BYTES = 10000, 67108864

local function ahead(id) return (tonumber(string.match(id, '^%d+')) or 0) > now + 60000 end

local function fields_of(flat)
  local f = {}
  for i = 1, #flat, 2 do f[flat[i]] = flat[i + 1] end
  return f
end

-- The id behind which the next one comes; nil where there is no stream.
local function last_id(key)
  local v = redis.pcall('XINFO', 'STREAM', key)
  return not v.err and fields_of(v)['last-generated-id'] or nil
end

-- The newest entries, newest first; nil where not all may be moved or given another id: in an inbox the id is the hand.
local function rest(key, groups)
  local kept, size_bytes, to = {}, 0, '+'
  repeat
    local page = call('XREVRANGE', key, to, '-', 'COUNT', 100)
    for _, entry in ipairs(page) do
      to = '(' .. entry[1]
      for _, part in ipairs(entry[2]) do size_bytes = size_bytes + #part end
      if groups.agent and ahead(entry[1]) and entry[1] ~= LAST_ID then return nil end
      if #kept >= MAX_KEPT or size_bytes > MAX_KEPT_BYTES then return next(groups) == nil and kept or nil end
      if not groups.agent or entry[1] ~= LAST_ID then kept[#kept + 1] = entry end
    end
  until #page < 100
  return kept
end

-- Winds a stream back to now. What lies in it stays, under its id if that is none of the future, and pending to whom it was.
local function rewind(key)
  local rows, groups, id = redis.pcall('XINFO', 'GROUPS', key), {}, (now + 1) .. '-0' -- an id of now may have been given out already
  if rows.err then return false end
  for _, row in ipairs(rows) do
    local f = fields_of(row)
    groups[f.name] = {at = f['last-delivered-id'], pending = call('XPENDING', key, f.name, '-', '+', MAX_KEPT)}
  end
  if not redis.pcall('XSETID', key, id).err then
    for name, g in pairs(groups) do
      if ahead(g.at) then call('XGROUP', 'SETID', key, name, id) end
    end
    return true
  end
  -- An entry lies up there, or (newer servers) did so: the stream is made anew.
  local kept, newest = rest(key, groups), '0-0'
  if not kept then return false end
  call('DEL', key)
  for i = #kept, 1, -1 do
    local stays = not ahead(kept[i][1])
    if stays then newest = kept[i][1] end
    -- By pcall: an entry with more fields than Lua has room for was nobody's but a stranger's, and goes.
    pcall(function() call('XADD', key, stays and kept[i][1] or '*', unpack(kept[i][2])) end)
  end
  for name, g in pairs(groups) do
    call('XGROUP', 'CREATE', key, name, ahead(g.at) and newest or g.at, 'MKSTREAM')
    for _, x in ipairs(g.pending) do
      redis.pcall('XCLAIM', key, name, x[2], 0, x[1], 'IDLE', x[3], 'RETRYCOUNT', x[4], 'FORCE', 'JUSTID')
    end
  end
  redis.pcall('XSETID', key, id)
  return true
end

-- XADD; a stream that takes no more ids is wound back for it.
local function add(key, ...)
  local v = redis.pcall('XADD', key, ...)
  local over = type(v) == 'table' and v.err and string.find(v.err, 'last possible', 1, true)
  return over and rewind(key) and redis.pcall('XADD', key, ...) or v
end

-- XADD that has to succeed.
local function surely(key, ...)
  local v = add(key, ...)
  return type(v) == 'string' and v or sure('XADD', key, ...)
end
