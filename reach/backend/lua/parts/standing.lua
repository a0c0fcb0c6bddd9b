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

-- How a leg came to its agent (`via` of its plan), said in its receipts: the null that stands there becomes the word.
local VIA = '"via":null'

-- A core that is written as we do it has via at its end; of others `conclude` looks for the place.
local function marked(L, answer)
  local core = answer.core
  if not L.vi or not core then return end
  local rest = string.match(string.sub(core, -80), VIA .. '(,"retry_after_ms":[%w.+-]*})$') or string.match(string.sub(core, -80), VIA .. '(})$')
  if rest then answer.core = string.sub(core, 1, -(#VIA + #rest) - 1) .. '"via":' .. cjson.encode(L.vi) .. rest end
end
