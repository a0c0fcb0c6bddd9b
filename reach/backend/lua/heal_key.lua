#!lua flags=allow-oom
-- Frees a key that holds the wrong type; makes a lost stream or group anew, at id 0; winds back ids that hold up its users.
-- Those are: the last possible id, behind which nobody can write; in a stream with a group all ids of the far future.
-- KEYS key key the key
-- ARGV type text what it should hold: stream, hash, zset, string
-- ARGV group text the consumer group of a stream, or nothing
-- RETURNS 1 when the key held something else and was deleted, or was wound back, else 0
-- REPEAT nothing
-- INCLUDE start
-- INCLUDE healing
local key, wanted, group = KEYS[1], ARGV[1], ARGV[2]
local found = call('TYPE', key).ok
local mended = found ~= 'none' and found ~= wanted
if mended then call('DEL', key) end
local last = found == 'stream' and not mended and last_id(key)
if last and (last == LAST_ID or (group ~= '' and ahead(last))) then mended = rewind(key) end
if group ~= '' then
  local made = redis.pcall('XGROUP', 'CREATE', key, group, '0', 'MKSTREAM')
  if made.err and not string.find(made.err, 'BUSYGROUP', 1, true) then return made end
end
return mended and 1 or 0
