-- A greater round opens what has ended and may end otherwise now. Needs staging.
local function ended_retryable(L) return L and L.fi and L.ss == 'retryable' end

-- What was only ended for the stage before it may have its turn now.
local function opens(L) return ended_retryable(L) or (L and L.fi and L.cd == 'stage.failed') end

local function reopens(r, d)
  local H = r.head
  if (d.H.ro or 1) <= (H.ro or 1) or H.op > 0 or H.fp ~= d.H.fp or H.s ~= d.H.s then return false end
  for l = 0, H.ls - 1 do
    if ended_retryable(leg(r, l)) then return true end
  end
  return false
end

-- The stages are those of the first round: what was opened is open again, and of the others those have failed that have.
local function reorder(r, old, todo)
  r.stages, r.head.sg, r.head.ob, r.head.ls = nil, old.head.sg, old.head.ob, old.head.ls
  for _, S in ipairs(stages(r)) do
    S[3], S[4] = 0, 0
    for l = S[1], S[1] + S[2] - 1 do
      if opens(r.legs[l]) then S[3] = S[3] + 1 elseif (r.legs[l] or {}).ss ~= 'success' then S[4] = S[4] + 1 end
    end
  end
end

-- What a new round opens behind a stage that has failed for good, under a policy that does not go on any more.
local function hopeless(r)
  for k, S in ipairs(stages(r)) do
    if S[3] > 0 then return NONE end
    if (S[2] == 0 or S[4] > 0) and not r.head.go then return left_behind(r, k) end
  end
  return NONE
end

-- The legs to be opened: all of a new message; of an old broadcast those that ended retryable, with the plan for their own agent.
local function to_open(r, d, old)
  local todo = {}
  -- A broadcast that had found nobody has one leg that is nobody's: it is fanned out anew.
  local nobodys = old and old.head.ls == 1 and not (leg(old, 0) or {}).a
  if nobodys or not (old and r.all) then
    local op = 0
    for i, p in ipairs(d.p) do
      todo[i] = {l = i - 1, p = p, a = p.agent}
      op = op + (p.act == 'observe' and 0 or 1)
    end
    return todo, #d.p, op
  end
  for l = 0, old.head.ls - 1 do
    local L = leg(old, l)
    r.legs[l] = L
    if L then touch(r, l) end
    if opens(L) then
      local found
      for _, p in ipairs(d.p) do
        if p.agent == L.a then found = p.act == 'observe' and {act = 'hold', agent = L.a} or p end
      end
      todo[#todo + 1] = {l = l, p = found, a = L.a}
    end
  end
  reorder(r, old, todo)
  return todo, old.head.ls, #todo
end
