#!lua flags=allow-oom
-- Gives the lease of a service to its owner, or renews it.
-- KEYS agents key reach:{E}:agents, the one key that names the env
-- ARGV service text the service
-- ARGV owner text who asks
-- ARGV ttl_ms integer how long the lease lasts
-- RETURNS 1 when the owner has it, else 0
-- REPEAT renews
-- INCLUDE env
local key = own('lock:' .. ARGV[1], 'string')
local owner = call('GET', key)
if owner and owner ~= ARGV[2] then return 0 end
call('SET', key, ARGV[2], 'PX', ARGV[3])
return 1
