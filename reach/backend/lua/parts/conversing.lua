-- The hash of a conversation: n messages so far, i those of n that only the path of others has shown, c cost (millionths), t tokens, b the
-- budget (hops cost tokens, - for none), k what was written last; and marks, each led by its k:
-- m:<msg_id> k round depth, p:<pair> k depth turns since, s:<content> k depth times, r:<run> k. Needs env.
local CONV_MS, MAX_CONV_FIELDS, CONV_KEPT = 3600000, 3000, 500 -- as in reach/backend/bounds.py
local MOST = 99999999999999 -- Lua writes numbers with 14 digits
local COUNTS = {n = true, i = true, c = true, t = true, b = true, k = true}

local function number(s)
  return s and #s <= 14 and string.match(s, '^%d+$') and tonumber(s) or nil
end

local function count(s) return number(s) or 0 end

-- The four numbers of a mark; nil for what is none.
local function mark(s)
  local m, v = {string.match(s or '', '^(%d+) (%d+) (%d+) (%d+)$')}, {}
  for i = 1, 4 do
    v[i] = number(m[i])
    if not v[i] then return nil end
  end
  return v
end

local function marked(k, a, b, c) return k .. ' ' .. a .. ' ' .. b .. ' ' .. c end

-- Lives an hour from now. Of too many marks those go that were written longest ago; what is far too much was not written here.
local function keep(key, k)
  call('PEXPIRE', key, CONV_MS)
  local size = call('HLEN', key)
  if size > 2 * MAX_CONV_FIELDS then return call('DEL', key) end
  if size <= MAX_CONV_FIELDS then return end
  local flat, old = call('HGETALL', key), {}
  for i = 1, #flat, 2 do
    local v = mark(flat[i + 1])
    if not COUNTS[flat[i]] and not (v and v[1] > k - CONV_KEPT and v[1] <= k) then old[#old + 1] = flat[i] end
  end
  for i = 1, #old, 1000 do call('HDEL', key, unpack(old, i, math.min(i + 999, #old))) end
end
