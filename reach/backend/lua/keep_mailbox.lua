#!lua flags=allow-oom
-- Makes a mailbox where it is missing (or is no stream, or its reader would go deaf: its ids lie in the future), renews its lifetime, and trims what its owner has read.
-- KEYS due key reach:{T}:due, the one key that names the partition
-- ARGV mailbox text its id
-- ARGV ttl_ms integer how long it lives without renewal
-- ARGV read text the id of the last entry that its owner has read; what lies before it goes
-- RETURNS 1 when it had to be made, else 0
-- REPEAT renews
-- INCLUDE start
-- INCLUDE healing
local key = P .. 'mail:' .. ARGV[1]
local found = call('TYPE', key).ok
local made = found ~= 'stream' or ahead(last_id(key))
if made then
  if found ~= 'none' then call('DEL', key) end
  call('XADD', key, 'MAXLEN', '~', MAX_MAIL, '*', 'hello', '1')
else
  redis.pcall('XTRIM', key, 'MINID', ARGV[3])
end
call('PEXPIRE', key, ARGV[2])
return made and 1 or 0
