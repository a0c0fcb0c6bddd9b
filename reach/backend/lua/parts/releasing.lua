-- Who may go on of the legs of a stage: held until those before it are over. Needs staging.

-- Whether a held leg asks for its stage: it may begin, and this is the first one that is held there.
local function calls(r, l)
  local k, S = stage_of(r, l)
  local before = k and l > S[1] and leg(r, l - 1)
  return is_free(r, k) and not (before and before.st == 'held')
end

local function waits(r, l, L) return r.all and L.st == 'held' and not calls(r, l) end

-- What callers are told of a leg's part in the order.
local function part_of(r, l, L)
  local k = stage_of(r, l)
  return k and ',"stage":' .. k - 1 or (L and L.st == 'observed' and ',"observed":true') or ''
end

local function order_of(r) return #stages(r) > 0 and ',"stages":' .. #stages(r) or '' end
