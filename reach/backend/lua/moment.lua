#!lua flags=allow-oom
-- The moment, told only by a server that would take a beat now: one that refuses or holds up every write makes everybody silent.
-- KEYS agents key reach:{E}:agents, the one key that names the env
-- RETURNS the moment in ms
-- REPEAT the moment then
-- INCLUDE env
return now
