-- A message that the partition knows already: a caller attaches, or a greater round re-opens what ended retryable. Needs placing.
local function answer(d, status, code, message)
  if d.r ~= '' then
    post(d.r, 'r', text({head = d.H}, 0, {rc = made(status, code, message).core}, false))
  end
end

-- The receipts of the legs that have ended, for one caller that comes late; not of those that were opened just now.
local function stored(r, box, opened)
  local fresh = {}
  for _, t in ipairs(opened or {}) do fresh[t.l] = true end
  for l = 0, r.head.ls - 1 do
    local L = leg(r, l)
    if L and L.fi and not fresh[l] then post(box, 'r', text(r, l, L, true)) end
  end
end

local function duplicate(r, d)
  local H = r.head
  if H.fp ~= d.H.fp or H.s ~= d.H.s then
    answer(d, 'failed', 'envelope.id_conflict', 'another message has this msg_id')
    return {'done', 'conflict'}
  end
  if d.r == '' then return {'done', 'duplicate'} end
  H.rt = H.rt or {}
  local there = false
  for _, box in ipairs(H.rt) do there = there or box == d.r end
  if not there and H.op > 0 then -- nobody waits for what has ended, and nothing more will come
    if #H.rt >= 4 then
      answer(d, 'retryable', 'overloaded', 'four callers wait for this message already')
      return {'done', 'overloaded'}
    end
    H.rt[#H.rt + 1] = d.r
    save(r)
  end
  -- By pcall: the caller is attached, and asks the record itself when it hears nothing.
  pcall(routed, r, d.r, d.o)
  pcall(stored, r, d.r)
  pcall(ask_again, r, d.r)
  return {'done', 'duplicate'}
end

local function ended_retryable(L) return L and L.fi and L.ss == 'retryable' end

local function reopens(r, d)
  local H = r.head
  if (d.H.ro or 1) <= (H.ro or 1) or H.op > 0 or H.fp ~= d.H.fp or H.s ~= d.H.s then return false end
  for l = 0, H.ls - 1 do
    if ended_retryable(leg(r, l)) then return true end
  end
  return false
end

-- The legs to be opened: all of a new message; of an old broadcast those that ended retryable, with the plan for their own agent.
local function to_open(r, d, old)
  local todo = {}
  -- A broadcast that had found nobody has one leg that is nobody's: it is fanned out anew.
  local nobodys = old and old.head.ls == 1 and not (leg(old, 0) or {}).a
  if nobodys or not (old and r.all) then
    for i, p in ipairs(d.p) do todo[i] = {l = i - 1, p = p, a = p.agent} end
    return todo, #d.p
  end
  for l = 0, old.head.ls - 1 do
    local L = leg(old, l)
    r.legs[l] = L
    if L then touch(r, l) end
    if ended_retryable(L) then
      local found
      for _, p in ipairs(d.p) do
        if p.agent == L.a then found = p end
      end
      todo[#todo + 1] = {l = l, p = found, a = L.a}
    end
  end
  return todo, old.head.ls
end
