-- What a question may be: small, and few in one message. Needs filling.
local MAX_VALUE, MAX_ANSWERS, MAX_KEPT, MAX_OPEN_MS = 65536, 100, 262144, 604800000 -- as in reach/backend/bounds.py
local WIDE = {'[\194-\223][\128-\191]', '\224[\160-\191][\128-\191]', '[\225-\236\238\239][\128-\191][\128-\191]', '\237[\128-\159][\128-\191]',
  '\240[\144-\191][\128-\191][\128-\191]', '[\241-\243][\128-\191][\128-\191][\128-\191]', '\244[\128-\143][\128-\191][\128-\191]'}

local function is_utf8(s)
  for _, wide in ipairs(WIDE) do s = string.gsub(s, wide, '?') end
  return not string.find(s, '[\128-\255]')
end

-- Raises unless it is one JSON value, as far as its ends and its brackets show it: what is inside is its reader's to judge.
local function check_value(name, s)
  local from = string.match(s, '^' .. SPACE .. '()%S')
  local to = from and #s <= MAX_VALUE and value_end(s, from)
  if not to or not string.find(s, '^' .. SPACE .. '$', to + 1) or not is_utf8(s) then
    error({err = 'REACH_INPUT ' .. name .. ' must be one JSON value of at most ' .. MAX_VALUE .. ' bytes'})
  end
end

-- Raises where a message would ask for ever, or its record grow with every answer.
local function check_room(L)
  local size_bytes = 0
  for _, one in ipairs(L.qa or {}) do size_bytes = size_bytes + #one.v end
  if #(L.qa or {}) >= MAX_ANSWERS or size_bytes > MAX_KEPT then
    error({err = 'REACH_INPUT a message asks at most ' .. MAX_ANSWERS .. ' questions, and keeps ' .. MAX_KEPT .. ' bytes of answers'})
  end
end
