#!lua
-- Counts messages in their conversations and says of each what is over: its pair, its content, or a budget. What is over is not counted.
-- KEYS agents key reach:{E}:agents, the one key that names the env
-- ARGV max_pair integer so many turns a minute of one sender to one target; 0 = no bound
-- ARGV max_same integer so many times the same content; 0 = no bound
-- ARGV n integer how many messages; eleven arguments follow for each
-- ARGV conversation* text its correlation_id
-- ARGV msg_id* text the message
-- ARGV round* integer its round
-- ARGV in_reply_to* text the message that it answers, or nothing
-- ARGV depth* integer how many agents are on its path
-- ARGV pair* text its sender and target; '' = it cannot be a loop
-- ARGV content* text what it says
-- ARGV tokens* integer what it needs
-- ARGV hops* integer the budget of the conversation; -1 = none
-- ARGV cost* integer the same, in millionths
-- ARGV most_tokens* integer the same
-- RETURNS {over, spent, allowed} per message; over: '' or pair, content, hops, cost, tokens
-- REPEAT nothing is over for a message of which this round is counted
-- INCLUDE env
-- INCLUDE conversing
local MINUTE_MS = 60000
local max_pair, max_same = count(ARGV[1]), count(ARGV[2])

-- One more turn, where the message lies deeper in its conversation than the last one that counted.
local function deeper(v, depth)
  if depth > v[2] then v[2], v[3] = depth, v[3] + 1 end
  return v
end

local function converse(a)
  local key, pair, content = own('conv:' .. ARGV[a], 'hash'), 'p:' .. ARGV[a + 5], 's:' .. ARGV[a + 6]
  local field, round, depth, needs = 'm:' .. ARGV[a + 1], count(ARGV[a + 2]), count(ARGV[a + 4]), count(ARGV[a + 7])
  local hops, cost, tokens = number(ARGV[a + 8]), number(ARGV[a + 9]), number(ARGV[a + 10])
  local f = call('HMGET', key, 'n', 'c', 't', 'k', field, 'm:' .. ARGV[a + 3], pair, content, 'i', 'b')
  local known, asked, k = mark(f[5]), mark(f[6]), math.min(count(f[4]) + 1, MOST)
  if known and known[2] >= round then return {'', 0, 0} end
  local root = depth == 0
  if asked and ARGV[a + 3] ~= '' then depth = math.max(depth, math.min(asked[3] + 1, MOST)) end
  local n, paid, used = math.max(count(f[1]), depth), count(f[2]), count(f[3])
  if hops and n > hops then return {'hops', n, hops} end
  if cost and paid > 0 and paid >= cost then return {'cost', paid, cost} end
  if tokens and ((used > 0 and used >= tokens) or used + needs > tokens) then return {'tokens', used + needs, tokens} end
  local set = {'n', math.min(n + 1, MOST), 'k', k, field, marked(k, round, depth, 0)}
  if ARGV[a + 5] ~= '' then
    local p, s = mark(f[7]), deeper(mark(f[8]) or {0, 0, 0, 0}, depth)
    if not p or now - p[4] >= MINUTE_MS or p[4] > now then p = {0, 0, 0, now} end
    deeper(p, depth)
    if max_pair > 0 and p[3] > max_pair then return {'pair', p[3], max_pair} end
    if max_same > 0 and s[3] > max_same then return {'content', s[3], max_same} end
    for _, v in ipairs({pair, marked(k, p[2], p[3], p[4]), content, marked(k, s[2], s[3], 0)}) do set[#set + 1] = v end
  end
  call('HSET', key, unpack(set))
  if needs > 0 then call('HSET', key, 't', math.min(used + needs, MOST)) end
  if n > count(f[1]) then call('HSET', key, 'i', math.min(count(f[9]) + n - count(f[1]), MOST)) end
  -- Of the budgets in a conversation the one of who began it: those of handlers are for their own parts.
  if (hops or cost or tokens) and (root or not f[10]) then
    call('HSET', key, 'b', (hops or '-') .. ' ' .. (cost or '-') .. ' ' .. (tokens or '-'))
  end
  keep(key, k)
  return {'', 0, 0}
end

local out = {}
for i = 1, count(ARGV[3]) do out[i] = converse(4 + (i - 1) * 11) end
return out
