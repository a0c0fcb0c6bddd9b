#!lua
-- Tells the env, in a change entry, what has become of a circuit.
-- KEYS agents key reach:{E}:agents, the one key that names the env
-- ARGV name text agent_id/partition
-- ARGV circuit bytes what is to be told of it; '' = it is closed
-- RETURNS 1; 0 where that was told before
-- REPEAT 0
-- INCLUDE env
local key, name, circuit = own('circuit', 'hash'), ARGV[1], ARGV[2]
if (call('HGET', key, name) or '') == circuit then return 0 end
if circuit == '' then call('HDEL', key, name) else call('HSET', key, name, circuit) end
call('PEXPIRE', key, 3600000)
tell(next_version(), 'circuit', name, circuit)
return 1
