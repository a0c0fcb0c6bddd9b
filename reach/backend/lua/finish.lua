#!lua flags=allow-oom
-- Acknowledges and deletes entries of a stream that need nothing more.
-- KEYS stream key the stream
-- ARGV group text its consumer group
-- ARGV id* text the entries
-- RETURNS how many were pending
-- REPEAT 0
-- INCLUDE start
-- INCLUDE healing
local key, group, acked, wound = KEYS[1], ARGV[1], 0, false
for i = 2, #ARGV do
  local v = redis.pcall('XACK', key, group, ARGV[i])
  if type(v) == 'number' then acked = acked + v end
  redis.pcall('XDEL', key, ARGV[i])
  wound = wound or ahead(ARGV[i])
end
if wound then rewind(key) end
return acked
