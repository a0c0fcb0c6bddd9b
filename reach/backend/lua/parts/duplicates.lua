-- A message that the partition knows already: a caller attaches. Needs placing, asking.
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
    if L and L.fi and L.st ~= 'observed' and not fresh[l] then post(box, 'r', text(r, l, L, true)) end
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
