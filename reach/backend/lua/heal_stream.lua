#!lua flags=allow-oom
-- Makes a stream and its group anew at id 0 where one of them is missing, or where the key holds something else.
-- KEYS stream key the stream
-- ARGV group text its consumer group, or nothing for a stream without one
-- RETURNS 1 when the key held something else and was deleted, else 0
-- REPEAT nothing
local found = redis.call('TYPE', KEYS[1]).ok
local wrong = found ~= 'none' and found ~= 'stream'
if wrong then redis.call('DEL', KEYS[1]) end
if ARGV[1] ~= '' then
  local made = redis.pcall('XGROUP', 'CREATE', KEYS[1], ARGV[1], '0', 'MKSTREAM')
  if made.err and not string.find(made.err, 'BUSYGROUP', 1, true) then return made end
end
return wrong and 1 or 0
