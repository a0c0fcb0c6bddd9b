"""Mutants of the circuit: what the row of an agent's health keeps from it."""

from tests.mutants.lua_routers import lua, node_id
from tests.mutants.memory_routers import memory
from tests.mutants.mutant import Mutant

_ASKED = "circuit::test_five_failures_in_a_row_open_it_and_nothing_more_is_written"
_BACK = "probe::test_what_lay_in_the_inbox_goes_back_and_burns_nothing"
_ONE = "probe::test_after_30_s_one_probe_goes_also_of_one_batch"
_LEDGER = "probe::test_a_probe_that_was_not_taken_and_ends_makes_place_for_the_next"
_BOUND = "probe::test_a_probe_that_was_taken_and_ends_without_an_answer_makes_place_30_s_after_its_start"
_ONLY = "probe::test_only_the_probe_decides"
_DEATH = "circuit::test_a_death_counts_once_however_much_was_in_hand"
_NEWS = "circuit::test_a_message_that_fails_where_it_has_failed_before_says_nothing_new"
_STEP = "circuit::test_a_step_back_of_the_clock_lets_the_probe_go_at_once"
_GONE = "circuit::test_it_is_gone_with_its_agent"
_GIVEN = "circuit::test_what_is_handed_back_says_nothing_of_the_agent"
_SOON = "circuit::test_a_run_that_total_cuts_off_soon_after_its_start_says_nothing"
_HURRY = "circuit::test_callers_in_a_hurry_say_nothing_of_the_agent"
_OVERDUE = "circuit::test_what_senders_in_a_hurry_call_overdue_says_nothing_of_the_agent"
_ENDED = "circuit::test_an_overdue_run_that_the_agent_ends_counts_unless_its_sender_was_in_a_hurry"


def rule(name: str, old: str, new: str, test: str) -> Mutant:
    """Of the rules that the memory backend has from `reach.envelope.circuit`."""
    return Mutant(f"memory:{name}", name.partition(",")[0], "reach/envelope/circuit.py", old, new, node_id(test))


MUTANTS = (
    lua("route asks", "parts/room.lua", "  if wait then return 'open', tostring(wait) end\n", "", _ASKED),
    lua("take asks", "parts/offering.lua", "and barred(agent, f.m, l, id) then", "and not barred then", _BACK),
    lua("one probe", "parts/circuits.lua", "return in_flight(agent, row.probe) and BUSY_MS or nil", "return nil", _ONE),
    lua("probe frees", "parts/circuits.lua", "return L and L.a == agent and", "return m or L and", _LEDGER),
    lua("probe bound", "parts/circuits.lua", "  row.opened = now\n  put_health", "  put_health", _BOUND),
    lua("only probe", "parts/health.lua", "if row.probe ~= id then return end", "", _ONLY),
    lua("death once", "parts/health.lua", "and now - row.died < DEATH_MS then", "and now < row.died then", _DEATH),
    lua("no news", "parts/health.lua", "if before and not good then return end", "", _NEWS),
    lua(
        "no news, of what is handed back",
        "parts/circuits.lua",
        "local nothing = wait >= 0 or",
        "local nothing =",
        _GIVEN,
    ),
    lua(
        "no news, of what is cut off at once",
        "parts/circuits.lua",
        "if death or hangs(r, L) then tally",
        "if death or L.tk then tally",
        _SOON,
    ),
    lua(
        "no news, of callers in a hurry",
        "parts/circuits.lua",
        ">= math.max(r.head.pr, SILENT_MS)",
        ">= math.min(r.head.pr, r.head.to) / 2",
        _HURRY,
    ),
    lua(
        "no news, of what is overdue in a hurry",
        "parts/circuits.lua",
        ">= math.max(r.head.pr, SILENT_MS)",
        ">= r.head.pr",
        _OVERDUE,
    ),
    lua("no news, of an agent in a hurry", "parts/circuits.lua", " and r.head.pr >= SILENT_MS) end", ") end", _ENDED),
    lua("no news, of who is gone", "close_inbox.lua", "  forget_health(ARGV[1])\n", "", _GONE),
    lua("stepped back", "parts/circuits.lua", "if row.opened <= now and now <", "if now <", _STEP),
    memory(
        "route asks", "room", 'return Obstacle("open", str(wait_ms)) if wait_ms else NOTHING', "return NOTHING", _ASKED
    ),
    memory("take asks", "taking", "and barred(part, agent, msg_id, number, hand):", "and not barred:", _BACK),
    memory("one probe", "health", "return BUSY_MS if _in_flight(part, agent, row.probe) else 0", "return 0", _ONE),
    memory(
        "probe frees",
        "health",
        "    return leg is not None and run is not None and",
        "    return run is not None or leg is not None and",
        _LEDGER,
    ),
    memory("probe bound", "health", "    row.opened_at_ms = part.now_ms\n", "", _BOUND),
    rule("only probe", "if row.probe != probe:", 'if probe == "":', _ONLY),
    rule("death once", "and now_ms - row.died_at_ms < DEATH_MS:", "and now_ms < row.died_at_ms:", _DEATH),
    rule("no news", "if before and not good:", "if before and good:", _NEWS),
    rule(
        "no news, of what is handed back",
        "if wait_ms >= 0 or code in SAYS_NOTHING or",
        "if code in SAYS_NOTHING or",
        _GIVEN,
    ),
    memory(
        "no news, of what is cut off at once",
        "health",
        "    if death or hangs(part, record, number):\n",
        "    if death or record.legs[number].taken_at_ms:\n",
        _SOON,
    ),
    memory(
        "no news, of callers in a hurry",
        "health",
        ">= max(head.processing_ms, SILENT_MS)",
        ">= min(head.processing_ms, head.total_ms) // 2",
        _HURRY,
    ),
    memory(
        "no news, of what is overdue in a hurry",
        "health",
        ">= max(head.processing_ms, SILENT_MS)",
        ">= head.processing_ms",
        _OVERDUE,
    ),
    memory("no news, of an agent in a hurry", "health", " and record.head.processing_ms >= SILENT_MS\n", "\n", _ENDED),
    memory("no news, of who is gone", "inboxes", "        forget_health(part, agent)\n", "", _GONE),
    rule("stepped back", 'return "open" if self.opened_at_ms <= now_ms <', 'return "open" if now_ms <', _STEP),
)
