#!lua flags=allow-oom
-- Gives one reader of a group its next batches of events: what it has not finished, then what others have left lying, then new ones.
-- KEYS events key reach:{T}:events
-- ARGV group text the consumer group: one for each use of the records
-- ARGV reader text who reads
-- ARGV max_batches integer how many at most
-- ARGV idle_ms integer after so long what another reader holds is taken over
-- ARGV after text of what it has not finished only what lies behind this entry, 0: all of it
-- ARGV noted_after text with the next two: it is noted what was trimmed there, and the group goes on behind it; '' or absent: nothing
-- ARGV noted_had integer as it was told
-- ARGV noted_trimmed integer as it was told
-- RETURNS {{had, trimmed, after, first}, {ids of batches that were trimmed in somebody's hands}, {entry id, batch} ...}; where trimmed is more than
--   had, so many were trimmed unread between those two ids, and no new batch is given before that is noted
-- REPEAT the same, until the batches are finished and what was trimmed is noted
-- INCLUDE start
local key, group, reader, most, idle_ms, after = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local place, gone = {0, 0, '0-0', '0-0'}, {}
local out = {place, gone}

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

-- Batches to the answer, and those that were trimmed while somebody held them.
local function tell(entries)
  for _, entry in ipairs(entries or {}) do
    if entry[2] then out[#out + 1] = {entry[1], facts(entry[2]).b or ''} else gone[#gone + 1] = entry[1] end
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
      local noted = ARGV[6] == at and number(ARGV[7]) == had and number(ARGV[8])
      if noted and noted > had and noted <= trimmed then had = noted end
      if at ~= f['last-delivered-id'] or had ~= f['entries-read'] then call('XGROUP', 'SETID', key, group, at, 'ENTRIESREAD', had) end
      if had and had < trimmed then
        local first = call('XRANGE', key, '-', '+', 'COUNT', 1)[1]
        place[1], place[2], place[3], place[4] = had, trimmed, at, first and first[1] or stream['last-generated-id']
      end
    end
  end
end
read(after)
-- Not XAUTOCLAIM, nor XCLAIM of what is gone: they forget it, and whoever is killed before it has noted that takes the count with it.
if #out == 2 and #gone == 0 then
  for _, row in ipairs(call('XPENDING', key, group, 'IDLE', idle_ms, '-', '+', most)) do
    if #call('XRANGE', key, row[1], row[1]) == 0 then gone[#gone + 1] = row[1] else tell(call('XCLAIM', key, group, reader, 0, row[1])) end
  end
end
-- What is gone holds nothing up: who keeps batches for long keeps those that are trimmed meanwhile as well.
if #out == 2 and place[1] == place[2] then read('>') end
return out
