#!lua flags=allow-oom
-- Makes a mailbox where it is missing (or is no stream) and renews its lifetime.
-- KEYS due key reach:{T}:due, the one key that names the partition
-- ARGV mailbox text its id
-- ARGV ttl_ms integer how long it lives without renewal
-- RETURNS 1 when it had to be made, else 0
-- REPEAT renews
local key = string.match(KEYS[1], '^(.*}):') .. ':mail:' .. ARGV[1]
local found = redis.call('TYPE', key).ok
local made = found ~= 'stream'
if made then
  if found ~= 'none' then redis.call('DEL', key) end
  redis.call('XADD', key, 'MAXLEN', '~', 1000, '*', 'hello', '1')
end
redis.call('PEXPIRE', key, ARGV[2])
return made and 1 or 0
