-- What follows from the answer of a run: an end, or one more run. Needs standing, closing, giving_back, filling, answering.

-- Where confidence and partial stand; nil for what is no object. A scan of a large output would hold up everybody: ours are at the end.
local function places(answer)
  local core = answer.core
  if not canonical(answer.status, answer.code, core) then return members(core) end
  local before = math.max(#core - 512, 0)
  local a, b, c, d = string.match(string.sub(core, -512), TAIL)
  return {confidence = {before + a, before + b - 1}, partial = {before + c, before + d - 1}}
end

-- How sure a success is: one that says nothing is as sure as its sender wants.
local function weigh(answer, wanted)
  local found = wanted > 0 and places(answer)
  local sure = found and found.confidence and said(answer.core, found.confidence)
  answer.sure = type(sure) == 'number' and math.max(sure, 0) or 1
  answer.partial = wanted > 0 and answer.sure < wanted
  if not answer.partial then return end
  local at = found.partial
  answer.core = string.sub(answer.core, 1, at[1] - 1) .. 'true' .. string.sub(answer.core, at[2] + 1)
end

-- The answer of an agent that writes its own way has via anywhere; what it says there itself stands.
local function led_by(L, answer)
  marked(L, answer)
  local at = L.vi and members(answer.core).via
  if at and string.sub(answer.core, at[1], at[2]) == 'null' then
    answer.core = string.sub(answer.core, 1, at[1] - 1) .. cjson.encode(L.vi) .. string.sub(answer.core, at[2] + 1)
  end
end

local function conclude(r, l, L, answer, wait)
  if answer.code == 'probe.failed' then wait = math.max(wait, 0) end -- nothing has run: it burns none
  if answer.status == 'success' then weigh(answer, r.head.mc or 0) end
  led_by(L, answer)
  if answer.status == 'retryable' and not L.b then
    if back(r, l, L, wait < 0, answer.code, answer, wait >= 0 and wait or nil) then L.se = true end
  elseif answer.partial and not L.b and not r.all and bytes(r, L) then
    -- Not sure enough: it is kept, and one other agent is asked.
    local best = {c = answer.sure, cd = answer.code, rc = answer.core, dt = answer.details, a = L.a, i = L.i or ''}
    back(r, l, L, true, answer.code, answer)
    best.du = L.du or 0
    L.b, L.se = best, true
  else
    L.se = true
    close(r, l, L, 'done', answer, true)
  end
end
