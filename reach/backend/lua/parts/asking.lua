-- What a parked leg asks. Needs wording, closing.

-- The notice that tells a caller what is asked. Whoever answers names the hand.
local function question(r, l, L)
  return '{"notice":"input_required","msg_id":"' .. r.m .. '","leg":' .. l .. ',"round":' .. (r.head.ro or 1) .. ',"hand":' .. quoted(L.h) ..
    ',"agent":' .. quoted(L.a) .. ',"attempt":' .. (L.n or 0) + 1 .. ',"open_ms":' .. math.max(ends(r, L) - now, 0) .. ',"left_ms":' .. (L.lm or 0) ..
    ',"prompt":' .. (L.qp or 'null') .. '}'
end

-- For a caller that comes late, or comes back.
local function ask_again(r, box)
  for l = 0, r.head.ls - 1 do
    local L = leg(r, l)
    if L and L.st == 'parked' then post(box, 'n', question(r, l, L)) end
  end
end
