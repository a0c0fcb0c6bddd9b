#!lua
-- Puts what a dead letter goes on as into a door, if it has room, and takes the letter away: both or neither.
-- KEYS due key reach:{T}:due, the one key that names the partition
-- ARGV max integer so many entries may lie there
-- ARGV envelope bytes the envelope as JSON
-- ARGV letter text the id of its entry in reach:{T}:dead
-- ARGV lane text high, normal or low
-- RETURNS the new entry's id; '' where there is no such letter any more; where there is no room, how many lie there
-- REPEAT '', and nothing is sent: also when the message has long been forgotten
-- INCLUDE start
local dead, door = P .. 'dead', P .. 'ingress:' .. ARGV[4]
local there = redis.pcall('XRANGE', dead, ARGV[3], ARGV[3])
if there.err or #there == 0 then return '' end
local lying = redis.pcall('XLEN', door)
if type(lying) == 'number' and lying >= number(ARGV[1]) then return lying end
local id = redis.pcall('XADD', door, '*', 'e', ARGV[2])
if type(id) == 'string' then call('XDEL', dead, ARGV[3]) end
return id
