#!lua flags=allow-oom
-- Writes what came of an effect into its guard, or frees the guard. The effect has happened: a full Redis must take it.
-- KEYS due key reach:{T}:due, the one key that names the partition
-- ARGV msg_id text the message
-- ARGV name text the guard
-- ARGV owner text the run that has it
-- ARGV value bytes the result; '' frees the guard
-- RETURNS 1, or 0 when another run has the guard, or has ended it
-- REPEAT nothing more; of a freed guard: nothing
-- INCLUDE start
-- INCLUDE record
-- INCLUDE guarding
local guard = guard_of(ARGV[1], ARGV[2])
if guard.owner and guard.owner ~= ARGV[3] then return 0 end
if guard.value then return guard.value == ARGV[4] and 1 or 0 end
if ARGV[4] == '' then
  call('DEL', guard.key)
  return 1
end
call('HSET', guard.key, 'o', ARGV[3], 'r', ARGV[4])
call('HDEL', guard.key, 'u')
outlive(guard.key, load(ARGV[1]))
return 1
