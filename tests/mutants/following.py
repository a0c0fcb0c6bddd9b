"""Mutants of reading `events` in groups: a batch that is lost uncounted, told twice, or taken from a reader that is at work on it."""

from tests.mutants.lua_routers import lua
from tests.mutants.memory_routers import memory

_AGAIN = "follow::test_a_batch_comes_again_until_it_is_finished"
_BEHIND = "follow::test_who_keeps_some_unfinished_is_given_what_lies_behind_them"
_OVER = "follow::test_two_readers_share_and_one_takes_over_from_the_other"
_MISSED = "follow::test_what_was_trimmed_unread_is_counted_once"
_HELD = "follow::test_what_was_trimmed_in_the_hands_of_one_who_keeps_it_stops_nothing"
_LATE = "follow::test_a_group_that_begins_late_has_missed_nothing"

#: Of readers of records, whom no model explores.
GUARDS = frozenset({"follow again", "follow behind", "follow idle", "follow missed", "follow late", "follow held"})

MUTANTS = (
    lua("follow again", "follow.lua", "\nread(after)\n", "\n", _AGAIN),
    lua("follow behind", "follow.lua", "\nread(after)\n", "\nread('0')\n", _BEHIND),
    lua("follow idle", "follow.lua", "'IDLE', idle_ms, '-'", "'IDLE', 0, '-'", _OVER),
    lua("follow missed", "follow.lua", "if had and had < trimmed then\n", "if false then\n", _MISSED),
    lua("follow missed, of what somebody held", "follow.lua", " else gone[#gone + 1] = entry[1] end", " end", _MISSED),
    lua(
        "follow missed, until it is noted",
        "follow.lua",
        "and place[1] == place[2] then read('>')",
        "then read('>')",
        _MISSED,
    ),
    lua("follow missed, once", "follow.lua", "then had = noted end", "then had = had end", _MISSED),
    lua("follow late", "follow.lua", "'MKSTREAM', 'ENTRIESREAD', trimmed)", "'MKSTREAM', 'ENTRIESREAD', 0)", _LATE),
    lua("follow held", "follow.lua", "if #out == 2 and place", "if #out == 2 and #gone == 0 and place", _HELD),
    memory(
        "follow held", "following", "trimmed is None and not _whole(found):", "trimmed is None and not found:", _HELD
    ),
    memory(
        "follow again",
        "following",
        "found = of.own(reader, now_ms, max_batches, after)",
        "found = of.own(reader, now_ms, 0, after)",
        _AGAIN,
    ),
    memory(
        "follow behind",
        "following",
        "of.own(reader, now_ms, max_batches, after)",
        'of.own(reader, now_ms, max_batches, "0")',
        _BEHIND,
    ),
    memory("follow idle", "following", "of.left(reader, idle_ms,", "of.left(reader, 0,", _OVER),
    memory("follow missed", "following", "    if group.entries_read >= trimmed:\n", "    if True:\n", _MISSED),
    memory(
        "follow missed, of what somebody held",
        "following",
        "if fields is None)",
        "if fields is None and not found)",
        _MISSED,
    ),
    memory(
        "follow missed, until it is noted",
        "following",
        "if trimmed is None and not _whole(found):",
        "if not _whole(found):",
        _MISSED,
    ),
    memory("follow missed, once", "following", "max(group.entries_read, noted.trimmed)", "group.entries_read", _MISSED),
    memory("follow late", "following", "    made.entries_read = stream.added - len(stream)\n", "", _LATE),
)
