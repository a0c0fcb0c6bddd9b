-- The timeouts of a message that goes to a slower agent than it was sent for: after a wait, a retry, a move. Needs record, placing.

-- True: something has risen. Not where total is over: nothing is handed over after its time, also when the decision is a little older.
local function raised(r, d)
  local H, L = r.head, leg(r, d.l)
  if now >= ends(r, L) or (d.pr <= H.pr and d.to <= H.to) then return false end
  H.pr = math.max(H.pr, d.pr)
  local more = math.max(d.to - H.to, 0)
  H.to, H.ta = H.to + more, H.ta + more
  if L.ta then -- it has asked, and has a total of its own
    L.ta = L.ta + more
    H.xa = math.max(H.xa or 0, L.ta)
  end
  redis.pcall('PEXPIREAT', P .. 'env:' .. r.m, expires(H)) -- the bytes live as long as the record
  return true
end

-- By pcall: the message goes on, whoever can or cannot be told of it.
local function tell(r)
  for _, box in ipairs(r.head.rt or {}) do pcall(routed, r, box, '') end
end
