#!lua
-- Takes a message, and the tokens that it needs, from an agent's bucket. What may be spent in a minute flows back evenly, and no more than
-- that is ever saved up.
-- KEYS agents key reach:{E}:agents, the one key that names the env
-- ARGV agent text agent_id
-- ARGV messages integer thousandths of a message a minute, 0 = any number
-- ARGV tokens integer tokens a minute, 0 = any number
-- ARGV needed integer the tokens of this message; one that needs more than a minute's has a minute's
-- ARGV back 0|1 1 gives back what was spent for a hand-over that came to nothing
-- RETURNS 0 when it was spent or given back; else in how many ms the bucket will have it
-- REPEAT spends, or gives back, once more
-- INCLUDE env
local MINUTE_MS, WHOLE = 60000, 1000
local key, back = own('rate:' .. ARGV[1], 'hash'), ARGV[5] == '1'
local stored = call('HMGET', key, 'at', 'm', 't')
local function kept(i) return stored[i] and #stored[i] <= 15 and string.match(stored[i], '^%d+$') and tonumber(stored[i]) or nil end
local at = kept(1)
-- The clock has stepped back: from now on what is there counts, and nothing has flowed back meanwhile.
local stepped = at and at > now
local past = at and math.max(now - at, 0) or 0

-- A measure of the bucket, in what flows back in a ms: how much is in it, how much is wanted, how much it holds.
local function measure(i, rate, least, wanted)
  local holds = math.max(rate, least) * MINUTE_MS
  local there = at and kept(i) or holds
  return {field = i == 2 and 'm' or 't', rate = rate, holds = holds, wanted = wanted * MINUTE_MS, there = math.min(there + past * rate, holds)}
end

local measures = {}
local messages, tokens = tonumber(ARGV[2]), tonumber(ARGV[3])
if messages > 0 then measures[1] = measure(2, messages, WHOLE, WHOLE) end
if tokens > 0 then measures[#measures + 1] = measure(3, tokens, 1, math.min(tonumber(ARGV[4]), tokens)) end
local wait_ms = 0
for _, x in ipairs(measures) do
  if not back and x.there < x.wanted then wait_ms = math.max(wait_ms, math.ceil((x.wanted - x.there) / x.rate)) end
end
if #measures == 0 or (wait_ms > 0 and not stepped) then return wait_ms end
local until_full_ms = MINUTE_MS
for _, x in ipairs(measures) do
  local left = x.there
  if back then left = math.min(left + x.wanted, x.holds) elseif wait_ms == 0 then left = left - x.wanted end
  call('HSET', key, x.field, left)
  until_full_ms = math.max(until_full_ms, math.ceil((x.holds - left) / x.rate))
end
call('HSET', key, 'at', now)
call('PEXPIRE', key, until_full_ms)
return wait_ms
