"""Mutants of the fallback: what keeps it from going on for ever, and what its receipts say."""

from tests.mutants.lua_routers import lua
from tests.mutants.memory_routers import memory
from tests.mutants.python import python

_SAYS = "via::test_what_went_to_the_fallback_says_so"
_BACK = "via::test_back_at_its_own_pattern_it_is_no_fallback_any_more"
_TESTS = "unit/routing/test_fallback.py::"

#: guards of no model: they bound one decision, and what a receipt says
GUARDS = frozenset({"fallback", "via"})

MUTANTS = (
    lua(
        "via",
        "parts/closing.lua",
        "local function remember(L, answer) marked(L, answer) ",
        "local function remember(L, answer) ",
        _SAYS,
    ),
    lua("via, of what is written its own way", "parts/concluding.lua", "  led_by(L, answer)\n", "", _SAYS),
    lua("via, of the last hand-over", "parts/placing.lua", "nil, p.via\n", "nil, p.via or L.vi\n", _BACK),
    memory("via", "closing", "    answer = marked(leg, answer)\n    return", "    return", _SAYS),
    memory("via, of what is written its own way", "settling", "    answer = led_by(leg, answer)\n", "", _SAYS),
    memory("via, of the last hand-over", "placing", "via=plan.via,", "via=plan.via or leg.via,", _BACK),
    python(
        "fallback, once",
        "routing/decide",
        " and not leg.via and",
        " and",
        _TESTS + "test_who_stands_in_and_asks_for_more_time_than_there_is_ends_it",
    ),
    python(
        "fallback, no circle",
        "routing/fallback",
        "if text is None or text in seen:",
        "if text is None:",
        _TESTS + "test_its_own_pattern_is_no_fallback_of_its_own",
    ),
    python(
        "fallback, no chain",
        "routing/fallback",
        "MAX_FALLBACKS = 2",
        "MAX_FALLBACKS = 3",
        _TESTS + "test_the_fallback_of_a_fallback_is_followed_once",
    ),
    python(
        "fallback, no loop",
        "routing/decide",
        "is_awaited or looped(sifted) or",
        "is_awaited or",
        _TESTS + "test_a_loop_is_a_loop_and_no_reason_to_fall_back",
    ),
)
