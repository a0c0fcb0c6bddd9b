#!lua
-- Makes the three lanes of an inbox and their groups, at id 0 so that nothing sent before is missed; winds back ids of the future.
-- KEYS due key reach:{T}:due, the one key that names the partition
-- ARGV agent text agent_id
-- RETURNS how many lanes had to be mended
-- REPEAT 0
-- INCLUDE start
-- INCLUDE healing
-- INCLUDE lanes
local made = 0
for _, lane in ipairs({'high', 'normal', 'low'}) do
  local key = P .. 'inbox:' .. ARGV[1] .. ':' .. lane
  local there, healed = readable(key)
  if not there then
    call('DEL', key)
    call('XGROUP', 'CREATE', key, 'agent', '0', 'MKSTREAM')
  elseif ahead(last_id(key)) and rewind(key) then
    healed = true
  end
  if healed or not there then made = made + 1 end
end
return made
