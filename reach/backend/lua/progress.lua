#!lua flags=allow-oom
-- A sign of life of the handler, fenced by the hand; with a notice also one into the mailboxes.
-- KEYS due key reach:{T}:due, the one key that names the partition
-- ARGV msg_id text the message
-- ARGV leg integer its leg
-- ARGV hand text the inbox entry's id
-- ARGV notice json '' or the whole notice
-- RETURNS 1, or 0 when stale
-- REPEAT the notice is sent again
-- INCLUDE start
-- INCLUDE healing
-- INCLUDE record
-- INCLUDE waking
-- INCLUDE sharing
-- INCLUDE standing
-- INCLUDE wording
-- INCLUDE closing
local r = load(ARGV[1])
local l = number(ARGV[2])
local L = r and not r.head.tomb and leg(r, l)
if not L or L.h ~= ARGV[3] or (L.st ~= 'running' and L.st ~= 'queued') then return 0 end
L.al = now
touch(r, l)
save(r)
if ARGV[4] ~= '' then
  for _, box in ipairs(r.head.rt or {}) do post(box, 'n', ARGV[4]) end
end
return 1
