-- Makes a receipt whole: what its maker left out is filled in. Its members are looked for by a scan, nothing that it carries is decoded.
-- Needs closing.
local DEFAULT = {success = 'ok', failed = 'handler.rejected', retryable = 'handler.error'}
local REST = {'output', 'error_message', 'schema', 'processing_host', 'confidence', 'partial', 'cost', 'via', 'retry_after_ms'}
local OURS, CLOSER, SPACE = {}, {['{'] = '}', ['['] = ']'}, '[ \t\r\n]*'
for name in string.gmatch('msg_id task_id correlation_id version durability leg round target_agent target_instance attempts retry_count ' ..
  'duration_ms queue_ms finished_at stored details', '%S+') do OURS[name] = true end
-- How a core ends that is written as we do it, with short and plain texts: with its beginning right too, nothing is missing in it. It
-- tells where confidence and partial stand.
local TEXT, NUMBER = '"?[^"{}%[%]]*"?', '[%w.+-]*'
local TAIL = ',"error_message":' .. TEXT .. ',"schema":' .. TEXT .. ',"processing_host":' .. TEXT .. ',"confidence":()' .. NUMBER ..
  '(),"partial":()%a*(),"cost":' .. NUMBER .. ',"via":' .. TEXT .. ',"retry_after_ms":' .. NUMBER .. '}$'

local function wrong(why) error({err = 'REACH_RECEIPT ' .. why}) end

local function text_end(s, at)
  repeat
    at = string.find(s, '["\\]', at + 1)
    if not at or string.byte(s, at) == 34 then return at end
    at = at + 1 -- past what the backslash escapes
  until false
end

-- Where the value that begins at `at` ends; nil where none does.
local function value_end(s, at)
  local c = string.sub(s, at, at)
  if c == '"' then return text_end(s, at) end
  if not CLOSER[c] then
    local word = string.match(s, '^-?%d[%d.eE+-]*', at) or string.match(s, '^%l+', at)
    if not word or (string.find(word, '^%l') and word ~= 'null' and word ~= 'true' and word ~= 'false') then return nil end
    return at + #word - 1
  end
  local open, depth = {}, 0
  repeat
    if c == '"' then at = text_end(s, at)
    elseif CLOSER[c] then
      depth = depth + 1
      open[depth] = CLOSER[c]
    elseif open[depth] == c then depth = depth - 1
    else return nil end
    if not at or depth == 0 then return at end
    at = string.find(s, '["{}%[%]]', at + 1)
    c = at and string.sub(s, at, at)
  until not at
end

-- Name -> where its value stands; nil for what is no object, or names anything twice, in disguise, or that is not its maker's to say.
local function members(s)
  local found, at = {}, string.match(s, '^' .. SPACE .. '{' .. SPACE .. '()')
  if at and string.find(s, '^}' .. SPACE .. '$', at) then return found end
  while at do
    local stop = string.sub(s, at, at) == '"' and text_end(s, at)
    local name = stop and string.sub(s, at + 1, stop - 1)
    local from = stop and string.match(s, '^' .. SPACE .. ':' .. SPACE .. '()', stop + 1)
    local to = from and value_end(s, from)
    if not to or found[name] or OURS[name] or string.find(name, '\\', 1, true) then return nil end
    found[name] = {from, to}
    if string.find(s, '^' .. SPACE .. '}' .. SPACE .. '$', to + 1) then return found end
    at = string.match(s, '^' .. SPACE .. ',' .. SPACE .. '()', to + 1)
  end
  return nil
end

-- cjson would read numbers such as 00.4, 0., 0x1 and nan all the same.
local function is_number(word)
  return string.find(word, '^-?%d[%d.eE+-]*$') and not (string.find(word, '^-?0%d') or string.find(word .. ' ', '%.%D'))
end

-- What a short member says; false for a long one, and for what is no JSON.
local function said(s, at)
  local word = string.sub(s, at[1], at[2])
  if #word > 1000 or not (is_number(word) or string.find(word, '^["{%[]') or word == 'null' or word == 'true') then return false end
  local ok, v = pcall(cjson.decode, '[' .. word .. ']')
  return ok and v[1]
end
