#!lua flags=allow-oom
-- Frees a key of the table that holds the wrong type; makes a stream and its group anew, at id 0, where one of them is missing.
-- KEYS key key the key
-- ARGV type text what it should hold: stream, hash, zset, string
-- ARGV group text the consumer group of a stream, or nothing
-- RETURNS 1 when the key held something else and was deleted, else 0
-- REPEAT nothing
local found = redis.call('TYPE', KEYS[1]).ok
local wrong = found ~= 'none' and found ~= ARGV[1]
if wrong then redis.call('DEL', KEYS[1]) end
if ARGV[2] ~= '' then
  local made = redis.pcall('XGROUP', 'CREATE', KEYS[1], ARGV[2], '0', 'MKSTREAM')
  if made.err and not string.find(made.err, 'BUSYGROUP', 1, true) then return made end
end
return wrong and 1 or 0
