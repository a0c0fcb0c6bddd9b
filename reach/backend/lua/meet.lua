#!lua
-- Writes down whom a source has met, and whom one of its conversations has. What is older than an hour goes, and of too many the oldest.
-- KEYS agents key reach:{E}:agents, the one key that names the env
-- ARGV n integer how many meetings; three arguments follow for each
-- ARGV source* text who has sent
-- ARGV conversation* text a stamp of the conversation, in hex digits
-- ARGV agent* text who was handed it
-- RETURNS nothing
-- REPEAT the later moment counts
-- INCLUDE env
local HOUR_MS, MAX_MET = 3600000, 1000 -- as in reach/backend/bounds.py
for i = 2, 1 + 3 * tonumber(ARGV[1]), 3 do
  local key, agent = own('met:' .. ARGV[i], 'zset'), ARGV[i + 2]
  call('ZADD', key, now, agent, now, agent .. ' ' .. ARGV[i + 1])
  call('ZREMRANGEBYSCORE', key, '-inf', now - HOUR_MS - 1)
  call('ZREMRANGEBYRANK', key, 0, -MAX_MET - 1)
  call('PEXPIRE', key, HOUR_MS)
end
