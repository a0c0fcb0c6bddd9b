-- The instances of an agent that have beaten. The hash `instances` has their ids, each behind a slash: to look for them among the beats of
-- all others would hold up everybody. Of an agent that it does not know (older beats, or it was lost) they are looked for there. Needs env.
local function looked_for(id)
  local found, cursor, glob = {}, '0', string.gsub(id, '[%[%]%*%?%\\]', '\\%0') .. '/*'
  repeat
    local page = call('ZSCAN', own('beats', 'zset'), cursor, 'MATCH', glob, 'COUNT', 1000)
    cursor = page[1]
    for i = 1, #page[2], 2 do found[#found + 1] = page[2][i] end
  until cursor == '0'
  return found
end

local function instances(id)
  local text, found, beats = call('HGET', own('instances', 'hash'), id), {}, own('beats', 'zset')
  if not text then return looked_for(id) end
  for instance in string.gmatch(text, '[^/]+') do
    local member = id .. '/' .. instance
    if call('ZSCORE', beats, member) then found[#found + 1] = member end
  end
  return found
end

-- One that beats for the first time. `new`: nobody else has beaten for the agent yet.
local function note_instance(id, instance, new)
  local key = own('instances', 'hash')
  local text = call('HGET', key, id)
  if not text then
    text = ''
    for _, member in ipairs(new and {} or looked_for(id)) do text = text .. string.sub(member, #id + 1) end
  end
  if string.find(text .. '/', '/' .. instance .. '/', 1, true) then instance = nil end
  call('HSET', key, id, text .. (instance and '/' .. instance or ''))
end

-- One that has gone.
local function drop_instance(id, instance)
  local key = own('instances', 'hash')
  local text = call('HGET', key, id)
  if not text then return end
  local left = ''
  for other in string.gmatch(text, '[^/]+') do
    if other ~= instance then left = left .. '/' .. other end
  end
  call('HSET', key, id, left)
end
