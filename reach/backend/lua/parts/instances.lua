-- The instances of an agent that have beaten. Needs env.
local function instances(id)
  local found, cursor, glob = {}, '0', string.gsub(id, '[%[%]%*%?%\\]', '\\%0') .. '/*'
  repeat
    local page = call('ZSCAN', own('beats', 'zset'), cursor, 'MATCH', glob, 'COUNT', 1000)
    cursor = page[1]
    for i = 1, #page[2], 2 do found[#found + 1] = page[2][i] end
  until cursor == '0'
  return found
end
