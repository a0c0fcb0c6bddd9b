-- Answers and receipts as texts; a core is never read here, but carried byte for byte. Needs record.
local function quoted(s) return s and s ~= '' and cjson.encode(s) or 'null' end

local function inner(object) return string.match(object, '^%s*{(.*)}%s*$') end

local function with(details, member)
  local members = inner(details or '{}')
  return '{' .. (string.find(members, '%S') and members .. ',' or '') .. member .. '}'
end

-- The answer for an end that no handler decided. `message` and the names in it are plain text.
local function made(status, code, message, details)
  local core = '{"status":"' .. status .. '","code":"' .. code .. '","output":null,"error_message":' .. cjson.encode(message) ..
    ',"schema":null,"processing_host":null,"confidence":null,"partial":false,"cost":null,"via":null,"retry_after_ms":null}'
  return {status = status, code = code, core = core, details = details or '{}'}
end

local function text(r, l, L, stored)
  local n = L.as or 0
  return '{' .. r.head.j .. ',"leg":' .. l .. ',"round":' .. (r.head.ro or 1) .. ',"target_agent":' .. quoted(L.ba or L.a) ..
    ',"target_instance":' .. quoted(L.ba and L.bi or L.i) .. ',"attempts":' .. n .. ',"retry_count":' .. math.max(n - 1, 0) .. ',"duration_ms":' ..
    (L.du or 0) .. ',"queue_ms":' .. (L.qm or 0) .. ',"finished_at":' .. (L.fi or now) .. ',"stored":' .. tostring(stored) .. ',' ..
    inner(L.rc) .. ',"details":' .. (L.dt or '{}') .. '}'
end
