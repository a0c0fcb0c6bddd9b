-- The answer of an agent as it is kept: status, code, core, details. Needs wording, filling.

-- As we write it ourselves: costs nothing more.
local function canonical(status, code, core)
  local start = '{"status":"' .. status .. '","code":"' .. code .. '","output":'
  return string.find(code, '^[%w_.-]+$') and string.sub(core, 1, #start) == start and string.find(string.sub(core, -512), TAIL)
end

local function is_object(s)
  local from = string.match(s, '^' .. SPACE .. '(){')
  local to = from and value_end(s, from)
  return to and string.find(s, '^' .. SPACE .. '$', to + 1)
end

-- Raises where core and details do not fit each other or the arguments. A code that is empty, or null, is left out.
local function answered(status, code, core, details)
  if not DEFAULT[status] then wrong('status must be success, failed or retryable') end
  if not is_object(details) then wrong('details must be a JSON object') end
  if canonical(status, code, core) then return {status = status, code = code, core = core, details = details} end
  local found = members(core)
  if not found then wrong('core must be a JSON object with each member once, and none that the script writes') end
  if found.status and said(core, found.status) ~= status then wrong('core has another status') end
  local told, at = found.code and said(core, found.code), found.code
  local empty = told == '' or told == cjson.null
  if at and not empty and (type(told) ~= 'string' or (code ~= '' and told ~= code)) then wrong('core has another code, or none that is text') end
  code = code ~= '' and code or (at and not empty and told) or DEFAULT[status]
  if empty then core = string.sub(core, 1, at[1] - 1) .. quoted(code) .. string.sub(core, at[2] + 1) end
  local missing = {}
  if not found.status then missing[1] = '"status":"' .. status .. '"' end
  if not at then missing[#missing + 1] = '"code":' .. quoted(code) end
  for _, name in ipairs(REST) do
    if not found[name] then missing[#missing + 1] = '"' .. name .. '":' .. (name == 'partial' and 'false' or 'null') end
  end
  if #missing > 0 then core = with(core, table.concat(missing, ',')) end
  return {status = status, code = code, core = core, details = details}
end
