#!lua
-- Compares and sets the record of a family of schemas, and with it one of its schemas; tells the record in one change entry.
-- KEYS agents key reach:{E}:agents, the one key that names the env
-- ARGV family text which family
-- ARGV known integer 1: `expected` is what was read; 0: there was no record
-- ARGV expected bytes the record that the caller has read
-- ARGV record json the new record, or nothing to remove it
-- ARGV name text the schema that is written or removed with it, or nothing
-- ARGV schema json its JSON Schema, or nothing to remove it
-- RETURNS done; changed: another record lies there, nothing was written; full: max_schemas are stored
-- REPEAT changed, unless the record stays the same
-- INCLUDE env
local family, record, name, schema = ARGV[1], ARGV[4], ARGV[5], ARGV[6]
local families, schemas = own('families', 'hash'), own('schemas', 'hash')
if call('HGET', families, family) ~= (ARGV[2] == '1' and ARGV[3]) then return 'changed' end
if schema ~= '' and call('HEXISTS', schemas, name) == 0 then
  local most = redis.pcall('HGET', P .. 'meta', 'max_schemas')
  most = type(most) == 'string' and string.match(most, '^%d+$') and #most <= 15 and tonumber(most) or 1000
  if call('HLEN', schemas) >= most then return 'full' end
end
if record ~= '' then call('HSET', families, family, record) else call('HDEL', families, family) end
if schema ~= '' then call('HSET', schemas, name, schema) elseif name ~= '' then call('HDEL', schemas, name) end
tell(next_version(), 'schema', family, record)
return 'done'
