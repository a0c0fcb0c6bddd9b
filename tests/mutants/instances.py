"""Mutants of knowing who beats for an agent: a list that is not whole, or counts the dead, would remove who lives or keep who is gone."""

from tests.mutants.lua_routers import lua
from tests.mutants.memory_routers import memory

_LOST = "instances::test_what_it_has_lost_is_found_among_all_beats"
_DEAD = "instances::test_who_does_not_beat_any_more_does_not_count"

#: guards of no model: they keep one hash true
GUARDS = frozenset({"who else beats", "only who beats"})

MUTANTS = (
    lua(
        "who else beats",
        "parts/instances.lua",
        "if not text then return looked_for(id) end",
        "if not text then return {} end",
        _LOST,
    ),
    lua(
        "who else beats, with the first that comes",
        "parts/instances.lua",
        "ipairs(new and {} or looked_for(id))",
        "ipairs({})",
        _LOST,
    ),
    lua(
        "only who beats",
        "parts/instances.lua",
        "if call('ZSCORE', beats, member) then found[#found + 1] = member end",
        "found[#found + 1] = member",
        _DEAD,
    ),
    memory(
        "who else beats",
        "instances",
        'return [member for member in beats if member.startswith(f"{agent_id}/")]',
        "return []",
        _LOST,
    ),
    memory(
        "who else beats, with the first that comes",
        "instances",
        "others = [] if new else",
        "others = [] if True else",
        _LOST,
    ),
    memory(
        "only who beats",
        "instances",
        'if (member := f"{agent_id}/{each}") in beats',
        'if (member := f"{agent_id}/{each}")',
        _DEAD,
        raises="KeyError",
    ),
)
