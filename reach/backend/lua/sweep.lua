#!lua flags=allow-oom
-- Deletes consumers of a stream's group that hold nothing: one that goes, or all that were not seen for long.
-- KEYS stream key the stream
-- ARGV group text its consumer group
-- ARGV consumer text one that goes, whenever it was seen; '' = all that were not seen for idle_ms
-- ARGV idle_ms integer how long that is
-- RETURNS how many were deleted, at most 500
-- REPEAT 0
-- INCLUDE start
local group, wanted, idle_ms, gone = ARGV[1], ARGV[2], number(ARGV[3]) or 600000, 0
local found = redis.pcall('XINFO', 'CONSUMERS', KEYS[1], group)
for _, row in ipairs(found.err and {} or found) do
  local f = {}
  for i = 1, #row, 2 do f[row[i]] = row[i + 1] end
  local goes = f.name == wanted or (wanted == '' and f.idle >= idle_ms)
  -- With its consumer Redis would forget what is pending to it, and nobody could claim it any more.
  if goes and f.pending == 0 and gone < 500 then
    call('XGROUP', 'DELCONSUMER', KEYS[1], group, f.name)
    gone = gone + 1
  end
end
return gone
