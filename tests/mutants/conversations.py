"""Mutants of what conversations bound: the steps converse and spend, and what SDK and routers do with them."""

from tests.mutants.lua_routers import lua
from tests.mutants.memory_routers import memory
from tests.mutants.python import python

#: of what is counted for whoever asks, and refuses nobody: the model has no promise about it
GUARDS = frozenset({"noted", "shown", "root"})

_ONCE = "conversations::test_a_message_is_counted_once"
_ROUND = "conversations::test_a_new_round_is_one_more"
_PAID = "conversations::test_a_run_is_counted_once"
_NOTED = "conversations::test_a_message_counts_once_for_all_its_runs_and_once_more_in_a_new_round"
_SHOWN = "conversations::test_a_message_that_a_path_has_shown_is_not_counted_again"
_ROOT = "conversations::test_the_budget_that_is_told_is_that_of_who_began"
_MANY = "conversations::test_work_that_is_many_and_not_deep_is_no_loop"
_PACE = "conversations::test_at_a_human_pace_it_goes_on"
_BACK = "conversations::test_a_window_that_began_in_the_future_begins_anew"
_PATH = "conversations::test_who_leaves_no_path_is_known_by_what_it_answers"
_PASSED_ON = "unit/sdk/test_budgets.py::test_a_handler_passes_the_budget_on_and_can_only_make_it_smaller"

MUTANTS = (
    lua("counted", "converse.lua", "if known and known[2] >= round then return {'', 0, 0} end\n", "\n", _ONCE),
    lua("counted, of a new round", "converse.lua", "if known and known[2] >= round then", "if known then", _ROUND),
    lua("paid", "spend.lua", "if f[4] then return 0 end\n", "\n", _PAID),
    lua("noted", "spend.lua", "not (known and known[2] >= round)", "round", _NOTED),
    lua("noted, of a new round", "spend.lua", "known[2] >= round)", "round)", _NOTED),
    lua("shown", "spend.lua", "if count(f[6]) > 0 then", "if count(f[6]) > MOST then", _SHOWN),
    lua("root", "converse.lua", "and (root or not f[10]) then", "then", _ROOT),
    lua("deeper", "converse.lua", "if depth > v[2] then", "if depth > 0 then", _MANY),
    lua("minute", "converse.lua", "if not p or now - p[4] >= MINUTE_MS or p[4] > now", "if not p or p[4] > now", _PACE),
    lua("minute, of the future", "converse.lua", " or p[4] > now then", " then", _BACK),
    lua("deepest", "converse.lua", "if asked and ARGV[a + 3] ~= '' then", "if not f then", _PATH),
    memory("counted", "conversing", "if known is not None and known[1] >= turn.round:", "if turn.round < 0:", _ONCE),
    memory(
        "counted, of a new round",
        "conversing",
        "if known is not None and known[1] >= turn.round:",
        "if known is not None:",
        _ROUND,
    ),
    memory("paid", "conversing", 'if f"r:{run}" in stored:', "if not run:", _PAID),
    memory("noted", "conversing", "if known is None or known[1] < of.round:", "if of.round:", _NOTED),
    memory(
        "noted, of a new round", "conversing", "if known is None or known[1] < of.round:", "if known is None:", _NOTED
    ),
    memory("shown", "conversing", "        if shown:  # by", "        if shown > MOST_SPENT:  # by", _SHOWN),
    memory("root", "conversing", 'and (turn.depth == 0 or "b" not in stored):', "and True:", _ROOT),
    memory("deeper", "conversing", "if depth > deepest else mark", "if depth > 0 else mark", _MANY),
    memory("minute", "conversing", " or now_ms - since[3] >= MINUTE_MS", "", _PACE),
    memory("minute, of the future", "conversing", " or since[3] > now_ms:", ":", _BACK),
    memory("deepest", "conversing", "if asked is not None and turn.in_reply_to:", "if turn.depth < 0:", _PATH),
    python(
        "before",
        "sdk/runs",
        "                await self._count(run, answer)\n"
        "            verdict = await self._inbox.settle(taken, answer, wait_ms=wait_ms)\n",
        "            verdict = await self._inbox.settle(taken, answer, wait_ms=wait_ms)\n"
        "            if run is not None:\n"
        "                await self._count(run, answer)\n",
        "unit/sdk/test_budgets.py::test_what_a_run_has_used_is_counted_before_its_answer_is_heard",
    ),
    python(
        "before, by a router",
        "delivery/on_behalf",
        "        await spend(self._backend, run, used, self._log)\n",
        "",
        "unit/delivery/test_conversations.py::test_an_agent_without_scripts_tells_what_it_used",
    ),
    python(
        "paid, of what burns no attempt",
        "delivery/spending",
        ":{self.attempt}:{self.hand}",
        ":{self.attempt}",
        "unit/delivery/test_conversations.py::test_each_run_is_paid_also_where_its_return_burns_no_attempt",
    ),
    python("rest", "sdk/budgets", "return min(own, parent)", "return own", _PASSED_ON),
    python("rest, of who says nothing", "sdk/context", "            budget=envelope.budget,\n", "", _PASSED_ON),
)
