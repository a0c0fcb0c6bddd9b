-- What an open circuit keeps from an agent: a hand-over, but for the one probe; and what a run's end says of its agent. Needs health, closing.
local ANSWERS = {['context.exceeded'] = true, ['overloaded'] = true, ['capacity.exhausted'] = true}
local SAYS_NOTHING = {['agent.lost'] = true, ['backend.unavailable'] = true}
local TIMEOUTS, SILENT_MS = {['timeout.processing'] = true, ['timeout.total'] = true}, 15000

local function name_of(m, l, h) return m .. '/' .. l .. '/' .. h end

-- The ledger says so itself: whatever has become of a probe, nobody has to free it.
local function in_flight(agent, probe)
  local m, l, h = string.match(probe, '^([^/]+)/(%d+)/(.+)$')
  local r = m and load(m)
  local L = r and not r.head.tomb and leg(r, number(l))
  return L and L.a == agent and L.h == h and (L.st == 'queued' or L.st == 'running')
end

-- For how long the agent is to be handed nothing; nil: it may be. A moment of the future was made before the clock stepped back: it is over.
local function shut_ms(agent)
  local row = health(agent)
  if row.opened == 0 then return nil end
  if row.opened <= now and now < row.opened + OPEN_MS then return row.opened + OPEN_MS - now end
  return in_flight(agent, row.probe) and BUSY_MS or nil
end

-- What is handed over while the circuit is not closed is the probe.
local function handed(agent, m, l, h)
  local row = health(agent)
  if row.opened == 0 then return end
  row.probe = name_of(m, l, h)
  put_health(agent, row)
end

-- Whether this entry has to go back: it lay in the inbox before the circuit opened. The probe may start; the next one is 30 s away then.
local function barred(agent, m, l, h)
  local row = health(agent)
  if row.opened == 0 then return false end
  if row.probe ~= name_of(m, l, h) then return true end
  row.opened = now
  put_health(agent, row)
  return false
end

-- Whether a run that is cut off has been silent for so long that it is its agent's fault; less than 15 s is its sender's hurry.
local function hangs(r, L)
  local since = L.al or L.tk
  return (L.st == 'running' or L.st == 'queued') and since and math.min(now, ends(r, L)) - since >= math.max(r.head.pr, SILENT_MS)
end

-- An agent may end a run sooner than its message has to be: that is by its own word, and by no sender's.
local function at_fault(r, L, code) return hangs(r, L) or (code == 'timeout.processing' and r.head.pr >= SILENT_MS) end

-- Whether an earlier run of the leg has failed at this agent.
local function failed_there(L)
  for _, agent in ipairs(L.tr or {}) do
    if agent == L.a then return true end
  end
  return false
end

-- Total or its processing time ends a run, or its holder has died.
local function lost_run(r, l, L, death)
  if death or hangs(r, L) then tally(L.a, name_of(r.m, l, L.h), false, failed_there(L), death) end
end

-- What an answer says of its agent: what burns no attempt nothing, but that Retry(after) is an answer.
local function judged(agent, id, answer, wait, hung, before)
  local good = answer.status ~= 'retryable' or ANSWERS[answer.code] or (wait >= 0 and answer.code == 'handler.retry')
  local nothing = wait >= 0 or SAYS_NOTHING[answer.code] or (TIMEOUTS[answer.code] and not hung)
  if good or not nothing then tally(agent, id, good or false, before) end
end
