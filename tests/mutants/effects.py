"""Mutants of what keeps an effect from being made twice, a dead letter from being sent twice, and what has no room from being lost."""

from tests.mutants.lua_routers import lua
from tests.mutants.memory_routers import memory
from tests.mutants.mutant import Mutant
from tests.mutants.python import python

HELD_UP = "once::test_others_wait_for_the_lease_of_its_owner"
KEPT = "once::test_the_first_has_it_and_its_result_is_kept"
LOST = "once::test_who_has_lost_it_ends_nothing"
HOLDER = "once::test_only_the_holder_of_the_leg_may_begin"
LATER_ROUND = "once::test_who_is_told_the_result_keeps_it_as_long_as_its_own_round"
OUTLIVES = "once::test_it_lives_longer_than_the_record"
AGAIN = "requeue::test_again_nothing_is_sent"
GOES = "requeue::test_it_is_sent_byte_for_byte_and_its_letter_goes_and_no_other"
FULL_DOOR = "requeue::test_a_full_door_leaves_the_letter_where_it_is"
FULL = "route_room::test_a_full_inbox_changes_nothing"
FULL_FOR_ALL = "share::test_an_inbox_that_is_full_is_so_for_everybody"
NO_ROOM_AGAIN = "route_room::test_room_is_asked_of_a_retry_too"

MUTANTS: tuple[Mutant, ...] = (
    # ---------------------------------------------------------------- once
    lua("once owner", "once_take.lua", "  if left > 0 then\n", "  if false then\n", HELD_UP),
    memory("once owner", "guarding", "        if left_ms > 0:\n", "        if left_ms < 0:\n", HELD_UP),
    python(
        "once owner, of two calls of one run",
        "sdk/effects",
        "/{next(self._calls)}",
        "",
        "unit/sdk/test_once.py::test_two_calls_of_one_run_are_one_effect",
    ),
    lua("once lease", "once_take.lua", "math.min(guard.ends - now, lease) or 0", "lease or 0", HELD_UP),
    memory("once lease", "guarding", "min(ahead_ms, lease_ms) if", "lease_ms if", HELD_UP),
    lua(
        "once lease, far ahead",
        "once_take.lua",
        "if guard.ends - now > lease then",
        "if false then",
        "once::test_a_lease_far_ahead_is_trusted_for_one_lease_and_no_longer",
    ),
    memory(
        "once lease, far ahead",
        "guarding",
        "            if ahead_ms > lease_ms:\n",
        "            if ahead_ms < 0:\n",
        "once::test_a_lease_far_ahead_is_trusted_for_one_lease_and_no_longer",
    ),
    lua(
        "once renewed",
        "once_take.lua",
        "call('HSET', guard.key, 'o', owner, 'u', now + lease)",
        "if guard.owner ~= owner then call('HSET', guard.key, 'o', owner, 'u', now + lease) end",
        HELD_UP,
    ),
    memory(
        "once renewed",
        "guarding",
        '    part.store.make_hash(key).update({"o"',
        '    if guard.get("o") != owner.encode():\n        part.store.make_hash(key).update({"o"',
        HELD_UP,
    ),
    python(
        "once renewed, by who makes the effect",
        "sdk/effects",
        "                try:\n                    await guard.take()\n",
        "                try:\n                    await self._clock.sleep(0)\n",
        "unit/sdk/test_once.py::test_an_effect_that_takes_longer_than_its_lease_is_made_once",
    ),
    lua("once kept", "once_take.lua", "if guard.value then\n", "if false then\n", KEPT),
    memory(
        "once kept",
        "guarding",
        '    if "r" in guard:\n        if part.load',
        "    if False:\n        if part.load",
        KEPT,
    ),
    lua(
        "once kept, against another result",
        "once_end.lua",
        "if guard.value then return guard.value == ARGV[4] and 1 or 0 end",
        "",
        "once::test_ended_twice_is_ended_once",
    ),
    memory(
        "once kept, against another result",
        "guarding",
        '    if "r" in guard:\n        return guard["r"] == value\n',
        "",
        "once::test_ended_twice_is_ended_once",
    ),
    python(
        "once kept, however long Redis is away",
        "sdk/effects",
        "                pause_ms = min(2 * pause_ms, 2_000)\n                continue\n",
        "                return\n",
        "unit/sdk/test_once_faults.py::test_what_a_living_process_knows_is_written_down_however_long_redis_is_away",
    ),
    lua("once holder", "once_take.lua", "L.h ~= ARGV[3] or ", "", HOLDER),
    memory("once holder", "guarding", "leg.hand != hand or ", "", HOLDER),
    lua("once ender", "once_end.lua", "if guard.owner and guard.owner ~= ARGV[3] then return 0 end", "", LOST),
    memory(
        "once ender",
        "guarding",
        '    if guard.get("o", owner.encode()) != owner.encode():\n        return False\n',
        "",
        LOST,
    ),
    python(
        "once ender, and no renewal after it",
        "sdk/effects",
        "            async with renewing:\n                if keeping",
        "            if True:\n                if keeping",
        "unit/sdk/test_once_faults.py::test_a_renewal_that_is_under_way_does_not_set_a_freed_guard_anew",
    ),
    lua("once outlives", "parts/guarding.lua", "math.max(last + ONCE_MS,", "math.max(last,", OUTLIVES),
    memory("once outlives", "guarding", "max(last_ms + ONCE_MS,", "max(last_ms,", OUTLIVES),
    lua("once outlives, in a later round", "once_take.lua", "  if r then outlive(guard.key, r) end", "", LATER_ROUND),
    memory(
        "once outlives, in a later round",
        "guarding",
        "            outlive(part, key, msg_id)  # a later",
        "            pass  # a later",
        LATER_ROUND,
    ),
    # ---------------------------------------------------------------- dead letters
    lua("requeue letter", "requeue.lua", "if there.err or #there == 0 then return '' end", "", AGAIN),
    memory(
        "requeue letter",
        "sender",
        "if dead is None or letter not in {entry_id for entry_id, _ in dead.all()}:",
        "if dead is None:",
        AGAIN,
    ),
    lua("requeue whole", "requeue.lua", "if type(id) == 'string' then call('XDEL', dead, ARGV[3]) end", "", GOES),
    memory("requeue whole", "sender", "            dead.delete([letter])\n", "", GOES),
    python(
        "requeue whole, and not in two steps",
        "delivery/dead_letters",
        "        if partition == letter.partition:\n            return",
        "        if partition < 0:\n            return",
        "unit/delivery/test_dead_letters.py::test_a_letter_goes_on_in_its_own_partition_and_two_steps_do_where_there_are_more_of_them_now",
    ),
    python(
        "requeue whole, in the letter's own partition",
        "delivery/dead_letters",
        "            if self._partition_of(msg_id, envelope.order_key) == letter.partition:\n",
        "            if number >= 0:\n",
        "unit/delivery/test_dead_letters.py::test_a_letter_goes_on_in_its_own_partition_and_two_steps_do_where_there_are_more_of_them_now",
    ),
    lua(
        "requeue room",
        "requeue.lua",
        "local lying = ",
        "call('XDEL', dead, ARGV[3])\nlocal lying = ",
        FULL_DOOR,
    ),
    memory(
        "requeue room",
        "sender",
        "            self._enter(partition, lane, envelope)\n            dead.delete([letter])\n",
        "            dead.delete([letter])\n            self._enter(partition, lane, envelope)\n",
        FULL_DOOR,
    ),
    # ---------------------------------------------------------------- room before XACK
    lua(
        "room",
        "parts/sending.lua",
        "    if why then return {why, told} end\n",
        "    if why and acknowledge(d) then return {why, told} end\n",
        FULL,
    ),
    memory(
        "room",
        "route",
        "    return RouteResult(found.why, known=found.told) if found.why else None\n",
        "    if found.why:\n        part.acknowledge(decision.entry.stream, decision.entry.id)\n"
        "    return RouteResult(found.why, known=found.told) if found.why else None\n",
        FULL,
    ),
    lua(
        "room, of a retry",
        "parts/deciding_again.lua",
        "  if why then return {why, told} end\n",
        "  if why and acknowledge(d) then return {why, told} end\n",
        NO_ROOM_AGAIN,
    ),
    memory(
        "room, of a retry",
        "route",
        "    if found.why:\n        return RouteResult(found.why, known=found.told)\n    if crowded",
        "    if found.why and part.acknowledge(decision.entry.stream, decision.entry.id):\n"
        "        return RouteResult(found.why, known=found.told)\n    if crowded",
        NO_ROOM_AGAIN,
    ),
    lua(
        "room, not looked for",
        "parts/room.lua",
        "    if left <= 0 then return one, '', n end\n",
        "",
        FULL_FOR_ALL,
    ),
    memory(
        "room, not looked for",
        "room",
        '        if left <= 0:\n            return Filled(name, "", count)\n',
        "",
        FULL_FOR_ALL,
    ),
)
