-- Order lines: of the messages of one pattern and order_key only the first in its line is handed over. Needs healing, record.
-- Beside msg_ids a line may have a mark, `@<moment>`: nobody passes it before then.
local MAX_LINE, QUIET_MS, MAX_DROPPED = 10000, 17000, 100 -- longer than a lease: who runs shows up again by then

local function line(r)
  local name = r.head.li
  return type(name) == 'string' and name ~= '' and not r.all and P .. 'line:' .. name or nil
end

-- nil where the line is empty, or something else lies there.
local function first(key)
  local m = redis.pcall('LINDEX', key, 0)
  return type(m) == 'string' and m or nil
end

local function stands(key, m) return type(redis.pcall('LPOS', key, m)) == 'number' end

local function push(cmd, key, r, member)
  sure(cmd, key, member)
  call('PEXPIREAT', key, expires(r.head), 'NX')
  call('PEXPIREAT', key, expires(r.head), 'GT')
end

-- Once, whatever was left of it. False: there is no room.
local function join(r, L)
  local key = line(r)
  if not stands(key, r.m) then
    if (tonumber(redis.pcall('LLEN', key)) or 0) >= MAX_LINE then return false end
    push('RPUSH', key, r, r.m)
  end
  L.jn = true
  return true
end

-- The first one that is open, and its leg. Whom nobody knows any more, who has ended, and a mark whose moment is over are dropped.
local function front(key, name)
  for dropped = 0, MAX_DROPPED do
    local m = first(key)
    if not m then return nil end
    local moment_ms = number(string.match(m, '^@(%d+)$'))
    if moment_ms and moment_ms > now and moment_ms <= now + QUIET_MS then return nil end
    local r = not moment_ms and load(m)
    local L = r and r.head.li == name and leg(r, 0)
    if L and not L.fi then return r, L, dropped > 0 end
    redis.pcall('LPOP', key)
  end
end

local function release(r, L)
  if r and L.st == 'held' then surely(P .. 'again', '*', 'm', r.m, 'l', 0, 'h', L.h or '0') end
end

-- It has ended: it goes, wherever and however often it stands. With the first one gone the next may go.
local function quit(r)
  local key = line(r)
  if not key then return end
  local was_first = first(key) == r.m
  redis.pcall('LREM', key, 0, r.m)
  if was_first then release(front(key, r.head.li)) end
end

-- Puts an open one back that the line has lost: in front where somebody may run it, else behind, and behind a mark, since others that run
-- may be lost as well. Answers whether it may ask for a decision.
local function mend(r, L)
  local key = line(r)
  if not key then return true end
  if L.jn and not stands(key, r.m) then
    if L.st == 'queued' or L.st == 'running' then push('LPUSH', key, r, r.m)
    else
      local some = redis.pcall('LRANGE', key, 0, MAX_DROPPED)
      if not string.find(table.concat(some, ' '), '@', 1, true) then push('RPUSH', key, r, '@' .. now + QUIET_MS) end
      push('RPUSH', key, r, r.m)
    end
  end
  local head, its, dropped = front(key, r.head.li)
  local mine = head and head.m == r.m
  if dropped and not mine then release(head, its) end
  return L.st ~= 'held' or mine
end
