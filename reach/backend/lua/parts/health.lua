-- The health of agents: a row for each in the hash `health`, and under '*' the names of those whose circuit is not closed. Needs record.
-- A row: failures in a row, when the circuit was opened (0 = closed), when a death was counted, the probe as <msg_id>/<leg>/<hand> or -,
-- <number>:<good>:<bad>,... of slots of 5 s or -. The same rules in Python: reach/envelope/circuit.py.
local OPEN_MS, BUSY_MS, IN_A_ROW, LEAST, SLOT_MS, SLOTS, DEATH_MS, HOUR_MS = 30000, 1000, 5, 20, 5000, 6, 15000, 3600000
local health_key, slot, rows = P .. 'health', math.floor(now / SLOT_MS), {}

-- What lies there by accident counts as nothing: the circuit is closed.
local function health(agent)
  if rows[agent] then return rows[agent] end
  local v = redis.pcall('HGET', health_key, agent)
  local run, opened, died, probe, slots = string.match(type(v) == 'string' and v or '', '^(%d+) (%d+) (%d+) (%S+) (%S+)$')
  local row = {run = number(run) or 0, opened = number(opened) or 0, died = number(died) or 0, probe = probe or '-'}
  for k, good, bad in string.gmatch(slots or '', '(%d+):(%d+):(%d+)') do
    k = number(k)
    if k and k <= slot and k > slot - SLOTS then row[k] = {number(good) or 0, number(bad) or 0} end
  end
  rows[agent] = row
  return row
end

local function put_health(agent, row)
  local slots = {}
  for k = slot - SLOTS + 1, slot do
    if row[k] then slots[#slots + 1] = string.format('%d:%d:%d', k, row[k][1], row[k][2]) end
  end
  local text = #slots > 0 and table.concat(slots, ',') or '-'
  sure('HSET', health_key, agent, string.format('%d %d %d %s %s', row.run, row.opened, row.died, row.probe, text))
  call('PEXPIRE', health_key, HOUR_MS)
end

-- For who asks which circuits are not closed: to read all rows for it would hold up everybody.
local function list(agent, is_open)
  local v, names = redis.pcall('HGET', health_key, '*'), {}
  for name in string.gmatch(type(v) == 'string' and v or '', '%S+') do
    if name ~= agent then names[#names + 1] = name end
  end
  if is_open then names[#names + 1] = agent end
  if #names > 0 then sure('HSET', health_key, '*', table.concat(names, ' ')) else redis.pcall('HDEL', health_key, '*') end
end

local function forget_health(agent)
  rows[agent] = nil
  redis.pcall('HDEL', health_key, agent)
  list(agent, false)
end

-- Whether too many have failed of what has been counted.
local function fails(row)
  local all, bads = 0, 0
  for k = slot - SLOTS + 1, slot do
    if row[k] then all, bads = all + row[k][1] + row[k][2], bads + row[k][2] end
  end
  return row.run >= IN_A_ROW or (all >= LEAST and bads * 2 > all)
end

-- What a run says of its agent. While the circuit is not closed only the probe counts. A message that fails where it has failed before is
-- no news (`before`); a process that dies is noticed once for each message that it had in hand, and counts once.
local function tally(agent, id, good, before, death)
  local row = health(agent)
  if row.opened > 0 then
    if row.probe ~= id then return end
    if good then return forget_health(agent) end
    row.run, row.opened, row.died, row.probe = row.run + 1, now, death and now or row.died, '-'
    return put_health(agent, row)
  end
  if before and not good then return end
  if death and row.died > 0 and now - row.died < DEATH_MS then
    row.died = math.min(row.died, now) -- the clock has stepped back
    return put_health(agent, row)
  end
  if death then row.died = now end
  local here = row[slot] or {0, 0}
  row[slot] = here
  if good then here[1], row.run = here[1] + 1, 0 else here[2], row.run = here[2] + 1, row.run + 1 end
  if not good and fails(row) then
    row.opened = now
    list(agent, true)
  end
  put_health(agent, row)
end
