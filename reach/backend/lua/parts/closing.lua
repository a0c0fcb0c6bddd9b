-- Ends a leg, or gives it back for a new decision. Shared by route, take, settle, due, cancel and close_inbox. Needs healing, record, waking, lining, sharing, standing, staging, wording, untold.
local function inbox(r, agent) return P .. 'inbox:' .. agent .. ':' .. r.head.la end

-- What was last heard of the leg. Status and code beside the core, since a core is never read here.
local function remember(L, answer) marked(L, answer) L.ss, L.cd, L.rc, L.dt = answer.status, answer.code, answer.core, answer.details end

-- By pcall: a mailbox that is gone or of the wrong type does not stop the work, the receipt is in the ledger.
local function post(box, field, data)
  redis.pcall('XADD', P .. 'mail:' .. box, 'NOMKSTREAM', 'MAXLEN', '~', MAX_MAIL, '*', field, data)
end

local function drop(r, L)
  if L.a and L.a ~= '' and L.h and L.h ~= '0' then
    redis.pcall('XACK', inbox(r, L.a), 'agent', L.h)
    redis.pcall('XDEL', inbox(r, L.a), L.h)
    entry_gone(L.a)
  end
end

local function measure(r, L)
  if L.tk then L.du = math.max(now - L.tk, 0) end
  L.qm = L.qm or math.max((L.tk or now) - r.head.at, 0)
end

-- state: done | cancelled | expired; run: there was a run that is not counted yet.
local function close(r, l, L, state, answer, run)
  local H = r.head
  L.as = (L.n or 0) + (run and 1 or 0)
  measure(r, L)
  counted_out(r, L)
  if L.wr then unqueue(r, l, L) end
  if L.st == 'queued' or L.st == 'running' then drop(r, L) end -- else its hand is an entry that is gone, and the id may be another's
  answer, state = standing(L, state, answer)
  remember(L, answer)
  L.st, L.fi, L.w, L.b = state, now, nil, nil
  touch(r, l)
  H.op = H.op - 1
  unask(r, L)
  if H.op <= 0 then
    redis.pcall('ZREM', P .. 'due', r.m)
    forget_bytes(r)
  end
  quit(r)
  local receipt = text(r, l, L, false)
  for _, box in ipairs(H.rt or {}) do post(box, 'r', receipt) end
  for _, b in ipairs(stepped(r, l, L)) do close(r, b[1], leg(r, b[1]), 'done', made('failed', 'stage.failed', BEHIND, b[2])) end
  if r.all and not run and L.cd == 'stage.failed' then untold_end(r, l, L) end
end

-- An end that a script decides by itself; details say where it was, and what was last heard. A run that it cuts off counts. told: by its caller.
local function lapse(r, l, L, state, code, message, told)
  local d = '{"state":"' .. L.st .. '"' .. (L.rc and ',"last_code":' .. quoted(L.cd) or '') .. '}'
  L.se = nil
  close(r, l, L, state, made(code == 'cancelled' and 'failed' or 'retryable', code, message, d), L.st == 'running' or L.st == 'parked' or (L.st == 'queued' and L.tk))
  if not told then untold_end(r, l, L) end
end

local function again(r, l, L) surely(P .. 'again', '*', 'm', r.m, 'l', l, 'h', L.h or '0') end
