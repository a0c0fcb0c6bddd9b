-- The best answer so far: of a leg whose sender wants more confidence than its first run had. It survives every end but a cancel.

-- What the leg ends with: this answer, or the best one where this is none, or is worse. `sure`: of a success that a run has just given.
local function standing(L, state, answer)
  local b = L.b
  if not b or state == 'cancelled' or (answer.sure and answer.sure >= b.c) then return answer, state end
  L.ba, L.bi, L.du = b.a, b.i, b.du
  return {status = 'success', code = b.cd, core = b.rc, details = b.dt}, 'done'
end

-- What an ended leg has asked and was told is of no more use; the record need not outlive the last open leg.
local function unask(r, L)
  L.qp, L.qa, L.sv, L.lm = nil, nil, nil, nil
  if r.head.op <= 0 then r.head.xa = nil end
end

-- Nobody needs the bytes any more, but who observes a large broadcast: they stay as long as it might be handed over.
local function forget_bytes(r)
  local key = P .. 'env:' .. r.m
  if r.head.ob then call('PEXPIREAT', key, r.head.ta) else call('DEL', key) end
end
