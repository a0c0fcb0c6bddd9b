#!lua
-- Whom a source has met within the last hour, and whom one of its conversations has.
-- KEYS agents key reach:{E}:agents, the one key that names the env
-- ARGV n integer how many are asked for; two arguments follow for each
-- ARGV source* text who sends
-- ARGV conversation* text a stamp of the conversation, in hex digits
-- RETURNS for each a list: agent, moment, 1 where it was in this conversation else 0, next agent ...
-- REPEAT the same
-- INCLUDE env
local HOUR_MS = 3600000 -- as in reach/backend/bounds.py
local out = {}
for i = 2, 2 * tonumber(ARGV[1]), 2 do
  local found = {}
  local told = call('ZRANGEBYSCORE', own('met:' .. ARGV[i], 'zset'), now - HOUR_MS, now + HOUR_MS, 'WITHSCORES')
  for j = 1, #told, 2 do
    local agent, stamp = string.match(told[j], '^([%w._-]+) (%x+)$')
    agent = agent or string.match(told[j], '^[%w._-]+$')
    if agent and (not stamp or stamp == ARGV[i + 1]) then
      found[#found + 1] = agent
      found[#found + 1] = math.floor(tonumber(told[j + 1]))
      found[#found + 1] = stamp and 1 or 0
    end
  end
  out[#out + 1] = found
end
return out
