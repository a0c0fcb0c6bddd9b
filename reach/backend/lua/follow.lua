#!lua flags=allow-oom
-- Gives one reader of a group its next batches of events: what it has not finished, then what others have left lying, then new ones.
-- KEYS events key reach:{T}:events
-- ARGV group text the consumer group: one for each use of the records
-- ARGV reader text who reads
-- ARGV max_batches integer how many at most
-- ARGV idle_ms integer after so long what another reader holds is taken over
-- ARGV after text of what it has not finished only what lies behind this entry, 0: all of it
-- RETURNS {how many batches this group has missed since the last answer, since they were trimmed, {entry id, batch} ...}
-- REPEAT the same batches, until they are finished
-- INCLUDE start
local key, group, reader, most, idle_ms, after = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local out = {0}

local function facts(flat)
  local f = {}
  for i = 1, #flat, 2 do f[flat[i]] = flat[i + 1] end
  return f
end

local function later(a, b)
  local am, as = string.match(a, '^(%d+)-(%d+)$')
  local bm, bs = string.match(b, '^(%d+)-(%d+)$')
  am, bm = tonumber(am), tonumber(bm)
  return am > bm or (am == bm and tonumber(as) > tonumber(bs))
end

-- Batches to the answer; one that was trimmed while somebody held it is missed.
local function tell(entries)
  for _, entry in ipairs(entries or {}) do
    if entry[2] then
      out[#out + 1] = {entry[1], facts(entry[2]).b or ''}
    else
      out[1] = out[1] + 1
      call('XACK', key, group, entry[1])
    end
  end
end

local function read(from)
  local v = call('XREADGROUP', 'GROUP', group, reader, 'COUNT', most, 'STREAMS', key, from)
  tell(v and v[1] and v[1][2])
end

local type = call('TYPE', key).ok
if type ~= 'none' and type ~= 'stream' then call('DEL', key) end
local stream = redis.pcall('XINFO', 'STREAM', key)
stream = stream.err and {['entries-added'] = 0, length = 0, ['last-generated-id'] = '0-0'} or facts(stream)
local trimmed = math.max(stream['entries-added'] - stream.length, 0)
local made = redis.pcall('XGROUP', 'CREATE', key, group, '0', 'MKSTREAM', 'ENTRIESREAD', trimmed)
if made.err then
  if not string.find(made.err, 'BUSYGROUP', 1, true) then return made end
  for _, row in ipairs(call('XINFO', 'GROUPS', key)) do
    local f = facts(row)
    if f.name == group then
      local had, at = f['entries-read'], f['last-delivered-id']
      -- A stream that was made anew, or wound back: from its start, since nothing in it will ever lie behind that place.
      if later(at, stream['last-generated-id']) then had, at = trimmed, '0-0' end
      if had and had < trimmed then out[1] = trimmed - had end
      if at ~= f['last-delivered-id'] or out[1] > 0 then call('XGROUP', 'SETID', key, group, at, 'ENTRIESREAD', trimmed) end
    end
  end
end
read(after)
if #out == 1 then
  local v = call('XAUTOCLAIM', key, group, reader, idle_ms, '0-0', 'COUNT', most)
  tell(v[2])
  for _, id in ipairs(v[3] or {}) do
    out[1] = out[1] + 1
    call('XACK', key, group, id)
  end
end
if #out == 1 then read('>') end
return out
