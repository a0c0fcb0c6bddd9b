#!lua
-- Puts an envelope into a door, if it has room.
-- KEYS stream key reach:{T}:ingress:<lane>
-- ARGV max integer so many entries may lie there
-- ARGV envelope bytes the envelope as JSON
-- RETURNS the entry's id; where there is no room, how many lie there
-- REPEAT a second entry of the same message, which route answers as a duplicate
local lying = redis.pcall('XLEN', KEYS[1])
if type(lying) == 'number' and lying >= tonumber(ARGV[1]) then return lying end
return redis.pcall('XADD', KEYS[1], '*', 'e', ARGV[2])
