#!lua flags=allow-oom
-- Writes results: record, receipts, or a return for a new decision; acknowledges and deletes the inbox entries.
-- KEYS due key reach:{T}:due, the one key that names the partition
-- ARGV agent text agent_id whose inbox held the entries
-- ARGV n integer how many results; nine arguments follow for each
-- ARGV msg_id* text the message
-- ARGV leg* integer its leg
-- ARGV hand* text the inbox entry's id
-- ARGV instance* text who ran it; '' = applied by a router for an agent without scripts
-- ARGV status* text success | failed | retryable
-- ARGV code* text a code of the table; '' = that of the core, else ok, handler.rejected or handler.error as the status is
-- ARGV core* json an object of output, error_message, schema, processing_host, confidence, partial, cost, via, retry_after_ms and, as in the arguments, status, code: what is left out is filled in (null, partial false), none twice, none that the script writes (details, leg, attempts, ...); else the error REACH_RECEIPT
-- ARGV details* json an object; '{}' = nothing
-- ARGV wait* integer ms: the return burns no attempt and waits so long; -1 = an ordinary result
-- ARGV records 0|1 1 = whoever settles writes the hop records of the run; 0, or left out: a router is asked to
-- RETURNS a verdict per result: done, stale, unknown (no record)
-- REPEAT done for the one that closed or returned it with this hand, else stale
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
-- INCLUDE filling
-- INCLUDE answering
-- INCLUDE concluding
local agent, records = ARGV[1], ARGV[3 + (number(ARGV[2]) or 0) * 9] == '1'

local function settle(m, l, h, instance, status, code, core, details, wait)
  local answer = answered(status, code, core, details)
  local r = load(m)
  local L = r and not r.head.tomb and leg(r, l)
  if not L then discard(agent, m, l, h) return 'unknown' end
  if L.h ~= h or L.a ~= agent then
    discard(agent, m, l, h)
    return 'stale'
  end
  if L.st == 'observed' then discard(agent, m, l, h) end -- a plain reader has seen it
  local mine = instance == '' or L.i == instance
  if not ((L.st == 'running' and mine) or L.st == 'queued') then return L.se and mine and 'done' or 'stale' end
  catch_up(r, L, instance)
  local hung, before = at_fault(r, L, answer.code), failed_there(L)
  if now >= ends(r, L) then
    lost_run(r, l, L)
    lapse(r, l, L, 'expired', 'timeout.total', 'its run ended after the total time')
    save(r)
    return 'stale'
  end
  local attempt, began, by, instance = (L.n or 0) + 1, L.tk or now, L.a, L.i
  conclude(r, l, L, answer, wait)
  if not records then untold(r, l, L, answer.code, attempt, began, by, instance) end
  save(r)
  judged(agent, name_of(m, l, h), answer, wait, hung, before)
  return 'done'
end

local out = {}
for i = 1, number(ARGV[2]) do
  local a = 3 + (i - 1) * 9
  out[i] = settle(ARGV[a], number(ARGV[a + 1]), ARGV[a + 2], ARGV[a + 3], ARGV[a + 4], ARGV[a + 5], ARGV[a + 6], ARGV[a + 7], number(ARGV[a + 8]) or -1)
end
return out
