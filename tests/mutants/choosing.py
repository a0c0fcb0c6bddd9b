"""Mutants of what choices go by: whom a source has met, how much lies with an agent."""

from tests.mutants.lua_routers import lua
from tests.mutants.memory_routers import memory

_BOUND = "met::test_of_too_many_the_oldest_go"
_WHOSE = "met::test_a_source_knows_whom_it_has_met_and_each_conversation_its_own"
_LYING = "lying::test_each_hand_over_says_how_many_lie_there"

#: They only make a choice better or worse: no model explores them.
GUARDS = frozenset({"max_met", "met", "lying"})

MUTANTS = (
    lua("max_met", "meet.lua", "  call('ZREMRANGEBYRANK', key, 0, -MAX_MET - 1)\n", "", _BOUND),
    lua("met", "met.lua", "(not stamp or stamp == ARGV[i + 1])", "(not stamp or stamp)", _WHOSE),
    lua("lying", "route.lua", "return one and lying_with(d.p[1].agent) or 0", "return one and 1 or 0", _LYING),
    memory("max_met", "meeting", "[-MAX_MET:]", "", _BOUND),
    memory("met", "meeting", "read[2] in {None, stamp}", "read[2] != read[1]", _WHOSE),
    memory(
        "lying",
        "route",
        "return msgspec.structs.replace(result, lying=lying_with(part, decision.plans[0].agent))",
        "return msgspec.structs.replace(result, lying=1)",
        _LYING,
    ),
)
