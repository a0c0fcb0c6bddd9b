#!lua flags=allow-oom
-- Parks a message whose handler has asked something: nobody holds it, its total stands still, and its callers are told what is asked.
-- KEYS due key reach:{T}:due, the one key that names the partition
-- ARGV agent text agent_id whose inbox held the entry
-- ARGV msg_id text the message
-- ARGV leg integer its leg
-- ARGV hand text the inbox entry's id
-- ARGV instance text who ran it; '' = whoever it is pending to
-- ARGV prompt json what is asked, at most 64 KiB
-- ARGV state json what the next run is given back, at most 64 KiB; '' = what was saved before
-- ARGV open_ms integer how long the question stays open, at most 7 days; 0 = one day
-- ARGV guard* text the guards of effects, as once_take was given them: they must outlive the question
-- RETURNS done, stale, unknown (no record)
-- REPEAT done with the same hand, also after the answer until the message is handed over again
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
-- INCLUDE fencing
-- INCLUDE health
-- INCLUDE circuits
-- INCLUDE giving_back
-- INCLUDE guarding
-- INCLUDE filling
-- INCLUDE bounding
-- INCLUDE asking
local agent, m, l, h, instance = ARGV[1], ARGV[2], number(ARGV[3]), ARGV[4], ARGV[5]
local prompt, state, open_ms = ARGV[6], ARGV[7], math.min(number(ARGV[8]) or 0, MAX_OPEN_MS)
check_value('prompt', prompt)
if state ~= '' then check_value('state', state) end
if open_ms <= 0 then open_ms = 86400000 end

local r = load(m)
local L = r and not r.head.tomb and leg(r, l)
if not L or L.h ~= h or L.a ~= agent then
  discard(agent, m, l, h)
  return L and 'stale' or 'unknown'
end
local mine = instance == '' or L.i == instance
if not ((L.st == 'running' and mine) or L.st == 'queued') then return L.qh == h and mine and 'done' or 'stale' end
catch_up(r, L, instance)
local e, kept = bytes(r, L)
if now >= ends(r, L) or not e then
  if e then
    lost_run(r, l, L)
    lapse(r, l, L, 'expired', 'timeout.total', 'it asked after the total time')
  else lapse(r, l, L, 'expired', 'backend.unavailable', 'the bytes of the message were lost with its inbox entry') end
  save(r)
  return 'stale'
end
check_room(L)

local left_ms = ends(r, L) - now
measure(r, L)
unshared(r, L)
drop(r, L)
L.st, L.qh, L.qp, L.lm, L.ta = 'parked', h, prompt, left_ms, now + open_ms
if state ~= '' then L.sv = state end
L.tk, L.al, L.re, L.se, L.w = nil, nil, nil, nil, nil
-- An answer may come at the last moment, and what is left of the total begins then: till its end everything must be there.
r.head.xa = math.max(r.head.xa or 0, L.ta + left_ms)
if kept then call('PEXPIREAT', P .. 'env:' .. m, expires(r.head), 'GT') else keep(r, e) end
touch(r, l)
arm(r, L, L.ta)
save(r)
tally(agent, name_of(m, l, h), true, false) -- whoever asks is well
for i = 9, #ARGV do outlive(P .. 'once:' .. m .. ':' .. ARGV[i], r) end
for _, box in ipairs(r.head.rt or {}) do post(box, 'n', question(r, l, L)) end
return 'done'
