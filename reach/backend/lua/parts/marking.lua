-- How a leg came to its agent (`via` of its plan), said in its receipts: the null that stands there becomes the word. Needs start.
local VIA = '"via":null'

-- A core that is written as we do it has via at its end; of others `conclude` looks for the place.
local function marked(L, answer)
  local core = answer.core
  if not L.vi or not core then return end
  local rest = string.match(string.sub(core, -80), VIA .. '(,"retry_after_ms":[%w.+-]*})$') or string.match(string.sub(core, -80), VIA .. '(})$')
  if rest then answer.core = string.sub(core, 1, -(#VIA + #rest) - 1) .. '"via":' .. cjson.encode(L.vi) .. rest end
end
