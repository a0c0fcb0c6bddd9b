#!lua flags=allow-oom
-- Hands over at most `free` messages to one instance: lanes in order, every eighth from the lowest first, each checked against the ledger.
-- KEYS due key reach:{T}:due, the one key that names the partition
-- ARGV agent text agent_id
-- ARGV instance text instance_id, the consumer's name
-- ARGV free integer how many more this instance can run; one call gives at most 100, or about 1 MiB of envelopes
-- ARGV resume 0|1 1 after a lost connection: what is pending to this instance and not in held comes again
-- ARGV turn integer how many messages this instance has been given before
-- ARGV only text '' = all lanes; else the one that new messages are taken from
-- ARGV held* text what the instance still has, <lane>:<hand>, since ids are unique within one lane only; a hand alone means that of any lane
-- RETURNS gone 0|1, more 0|1 (left of what is to come again: resume once more), now, expired count, cursors {high, normal, low} ('' of a lane that was not asked for), then a list per message: lane, hand, msg_id, leg, attempt, envelope, total_at_ms, processing_ms, answers json or '', 'o' for one that is only observed (attempt 0; its entry is gone) or ''
-- REPEAT hands over more messages, never one twice, but with resume, same hand, burning nothing
-- INCLUDE start
-- INCLUDE healing
-- INCLUDE record
-- INCLUDE lining
-- INCLUDE waking
-- INCLUDE sharing
-- INCLUDE standing
-- INCLUDE staging
-- INCLUDE wording
-- INCLUDE untold
-- INCLUDE closing
-- INCLUDE health
-- INCLUDE circuits
-- INCLUDE giving_back
local MAX_TAKEN, MAX_TAKEN_BYTES, MAX_LOOKS, LOW_TURN = 100, 1048576, 300, 8
local agent, instance, free, turn = ARGV[1], ARGV[2], math.min(number(ARGV[3]) or 0, MAX_TAKEN), number(ARGV[5]) or 0
local held, lanes, only = {}, {}, ARGV[6] or ''
for i = 7, #ARGV do held[ARGV[i]] = true end
for i, name in ipairs({'high', 'normal', 'low'}) do lanes[i] = {name = name, key = P .. 'inbox:' .. agent .. ':' .. name, out = only ~= '' and only ~= name} end
local out, size_bytes, looks, expired, gone, more = {}, 0, 0, 0, 0, 0
-- INCLUDE offering

local function resume(lane)
  local from = '-'
  repeat
    local page = redis.pcall('XPENDING', lane.key, 'agent', from, '+', 100, instance)
    if page.err then return end
    for _, x in ipairs(page) do
      from = '(' .. x[1]
      local known = held[lane.name .. ':' .. x[1]] or held[x[1]]
      local entry = not known and call('XRANGE', lane.key, x[1], x[1])[1]
      if entry and not room() then more = 1 return end
      if entry then hand_over(lane, entry, true) end
    end
  until #page < 100
end

-- The next new entry: one at a time, since COUNT is per stream and what was read cannot be put back.
local function read(lowest_first)
  for k = 1, 3 do
    local lane = lanes[lowest_first and 4 - k or k]
    local v = not lane.empty and not lane.out and redis.pcall('XREADGROUP', 'GROUP', 'agent', instance, 'COUNT', 1, 'STREAMS', lane.key, '>')
    if type(v) == 'table' and not v.err then
      local entry = v[1][2][1]
      lane.cursor = entry[1]
      return lane, entry
    end
    lane.empty, gone = true, v and 1 or gone
  end
  return nil
end

-- Where the bell goes on: behind what was read, of an empty lane behind all; an id of the far future would silence it.
local function cursor(lane)
  local last = lane.empty and redis.pcall('XREVRANGE', lane.key, '+', '-', 'COUNT', 1)
  local id = last and type(last[1]) == 'table' and last[1][1] or lane.cursor or '0-0'
  return lane.out and '' or ahead(id) and (now - 1) .. '-0' or id
end

if ARGV[4] == '1' then for _, lane in ipairs(lanes) do resume(lane) end end
while room() do
  local lane, entry = read((turn + #out + 1) % LOW_TURN == 0)
  if not lane then break end
  hand_over(lane, entry)
end
local reply = {gone, more, now, expired, {cursor(lanes[1]), cursor(lanes[2]), cursor(lanes[3])}}
for _, row in ipairs(out) do reply[#reply + 1] = row end
return reply
