-- The stages of a broadcast (process_order): its legs are numbered stage by stage, and behind the last stage come those who only observe.
-- A stage is {first leg, how many, how many are open, how many ended without a success}. Needs healing, record.
local NONE, BEHIND = {}, 'an earlier stage of process_order failed'

local function is_stage(S, legs)
  for i = 1, 4 do
    if type(S) ~= 'table' or type(S[i]) ~= 'number' or S[i] < 0 then return false end
  end
  return S[1] + S[2] <= legs
end

-- Those of a record; none where somebody has spoilt them.
local function stages(r)
  if r.stages then return r.stages end
  r.stages = r.all and type(r.head.sg) == 'table' and r.head.sg or NONE
  for _, S in ipairs(r.stages) do
    if not is_stage(S, r.head.ls) then r.stages = NONE end
  end
  return r.stages
end

local function stage_of(r, l)
  for k, S in ipairs(stages(r)) do
    if l >= S[1] and l < S[1] + S[2] then return k, S end
  end
end

-- Whether a stage may begin: all before it are over, and none has failed, unless the policy goes on then.
local function is_free(r, k)
  for j = 1, (k or 1) - 1 do
    local S = stages(r)[j]
    if S[3] > 0 or ((S[2] == 0 or S[4] > 0) and not r.head.go) then return false end
  end
  return true
end

local function call_stage(r, S)
  for l = S[1], S[1] + S[2] - 1 do
    local L = leg(r, l)
    if L and L.st == 'held' then
      surely(P .. 'again', '*', 'm', r.m, 'l', l, 'h', L.h or '0')
      L.re = nil
      touch(r, l)
      return arm(r, L, now + 3000)
    end
  end
end

-- The open legs behind a stage that has failed, and what is told of them. From here on nothing of the message is called.
local function left_behind(r, k)
  local out, all = {}, stages(r)
  local S, last = all[k], all[#all]
  r.still = true
  for l = S[1] + S[2], last[1] + last[2] - 1 do
    local L = leg(r, l)
    local told = L and '{"state":"' .. L.st .. '","stage":' .. k - 1 .. (S[2] == 0 and ',"empty":true}' or '}')
    if L and not L.fi then out[#out + 1] = {l, told} end
  end
  return out
end

local function over_up_to(r, k)
  for j = 1, k do if stages(r)[j][3] > 0 then return false end end
  return true
end

-- A leg has ended. With the last open one of its stage the next stage is called; where it has failed, the legs behind it are to end: they are
-- answered with. A cancel and the end of total call nobody.
local function stepped(r, l, L)
  local k, S = stage_of(r, l)
  if not k then return NONE end
  S[3], S[4] = S[3] - 1, S[4] + (L.ss == 'success' and 0 or 1)
  local timed_out = L.cd == 'timeout.total' and now >= math.max(r.head.ta, r.head.xa or 0)
  if r.still or timed_out or not over_up_to(r, k) then return NONE end
  repeat
    if (S[2] == 0 or S[4] > 0) and not r.head.go then return left_behind(r, k) end
    k, S = k + 1, stages(r)[k + 1]
  until not S or S[3] > 0
  return S and call_stage(r, S) or NONE
end
