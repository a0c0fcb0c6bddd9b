"""Mutants of park and answer, and of all that must know that a message is parked: in Lua, in the memory backend, in Python."""

from tests.mutants.lua_routers import lua, node_id
from tests.mutants.mutant import Mutant
from tests.mutants.python import python

_LUA = (
    lua(
        "parked",
        "settle.lua",
        "if not ((L.st == 'running' and mine) or",
        "if not (((L.st == 'running' or L.st == 'parked') and mine) or",
        "park::test_a_settle_and_a_sign_of_life_are_stale",
    ),
    lua(
        "parked, its total",
        "parts/record.lua",
        "return L.ta or math.max(",
        "return math.max(",
        "park::test_its_total_stands_still",
    ),
    lua(
        "parked, what is left",
        "park.lua",
        "local left_ms = ends(r, L) - now",
        "local left_ms = r.head.to",
        "park::test_what_is_left_is_less_each_time",
    ),
    lua(
        "parked, its guards",
        "park.lua",
        "for i = 9, #ARGV do outlive(",
        "for i = 9, 8 do outlive(",
        "park::test_everything_outlives_the_question",
    ),
    lua(
        "parked, its record",
        "parts/record.lua",
        "math.max(h.ta, h.xa or 0, now)",
        "math.max(h.ta, now)",
        "park::test_everything_outlives_the_question",
    ),
    lua(
        "parked, and not after its end",
        "parts/standing.lua",
        "if r.head.op <= 0 then r.head.xa = nil end",
        "",
        "park::test_a_question_that_nobody_answers_ends_it",
    ),
    lua(
        "parked, asked again",
        "parts/duplicates.lua",
        "  pcall(ask_again, r, d.r)\n",
        "",
        "park::test_a_duplicate_attaches_and_is_asked_too",
    ),
    lua(
        "parked, raised",
        "parts/raising.lua",
        "if now >= ends(r, L) or",
        "if now >= H.ta or",
        "answer::test_a_slower_agent_raises_what_is_left",
    ),
    lua(
        "parked, and its agent is well",
        "park.lua",
        "tally(agent, name_of(m, l, h), true, false)",
        "",
        "park::test_an_agent_that_asks_is_well",
    ),
    lua("hand, of park", "park.lua", "or L.h ~= h or L.a", "or L.a", "park::test_nobody_else_parks_it"),
    lua(
        "instance, of park",
        "park.lua",
        "local mine = instance == '' or L.i == instance",
        "local mine = true",
        "park::test_nobody_else_parks_it",
    ),
    lua(
        "repeat, of park",
        "park.lua",
        "return L.qh == h and mine and 'done' or 'stale' end",
        "return 'stale' end",
        "park::test_again_with_the_same_hand_is_no_news",
    ),
    lua(
        "settle late, of park",
        "park.lua",
        "if now >= ends(r, L) or not e then",
        "if not e then",
        "park::test_nothing_is_asked_after_the_total",
    ),
    lua(
        "keep, of park",
        "park.lua",
        "'GT') else keep(r, e) end",
        "'GT') end",
        "park::test_it_gives_up_the_entry_and_keeps_bytes_and_state",
    ),
    lua(
        "question",
        "answer.lua",
        "if not L or L.st ~= 'parked' or L.h ~= h then",
        "if not L or L.st ~= 'parked' then",
        "answer::test_an_old_answer_is_not_taken_for_the_new_question",
    ),
    lua(
        "question, answered once",
        "answer.lua",
        "if not L or L.st ~= 'parked' or L.h ~= h then",
        "if not L or L.h ~= h then",
        "answer::test_a_question_is_answered_once",
    ),
    lua(
        "question, still open",
        "answer.lua",
        "if now >= ends(r, L) then",
        "if false then",
        "park::test_an_answer_that_comes_too_late_ends_it",
    ),
    lua(
        "sender, of an answer",
        "answer.lua",
        "if r.head.s ~= sender then return 'denied' end",
        "",
        "answer::test_only_its_sender_answers",
    ),
    lua(
        "question, whose",
        "answer.lua",
        "v = value, a = L.a}",
        "v = value}",
        "answer::test_each_answer_says_which_agent_has_asked",
    ),
)
_TESTS = {mutant.name.partition(":")[2]: mutant.test for mutant in _LUA}


def _memory(name: str, file: str, old: str, new: str, test: str = "") -> Mutant:
    node = node_id(test) if test else _TESTS[name]
    guard = name.partition(",")[0]
    return Mutant(f"memory:{name}", guard, f"reach/backend/memory_backend/{file}.py", old, new, node)


_MEMORY = (
    _memory(
        "parked",
        "settling",
        "elif leg.state != LegState.RUNNING or not same_instance:",
        "elif leg.state not in {LegState.RUNNING, LegState.PARKED} or not same_instance:",
    ),
    _memory(
        "parked, what is left",
        "parked",
        "left_ms = ends_at_ms(record.head, leg) - part.now_ms",
        "left_ms = record.head.total_ms",
    ),
    _memory("parked, its guards", "parked", "for name in parking.guards:", "for name in ():"),
    _memory(
        "parked, its record",
        "partition",
        "max(head.total_at_ms, head.latest_at_ms, self.now_ms)",
        "max(head.total_at_ms, self.now_ms)",
    ),
    _memory("parked, and not after its end", "closing", "        record.change_head(latest_at_ms=0)\n", ""),
    _memory(
        "parked, asked again", "duplicates", "    ask_again(part, decision.msg_id, record, decision.reply_to)\n", ""
    ),
    _memory(
        "parked, raised",
        "raising",
        "if part.now_ms >= ends_at_ms(head, leg) or",
        "if part.now_ms >= head.total_at_ms or",
    ),
    _memory(
        "parked, and its agent is well",
        "parked",
        "    tally(part, agent, probe_of(msg_id, number, parking.hand), good=True)",
        "    probe_of(msg_id, number, parking.hand)",
    ),
    _memory("hand, of park", "parked", "or leg.hand != parking.hand or leg.agent", "or leg.agent"),
    _memory(
        "instance, of park",
        "parked",
        "mine = not parking.instance or parking.instance == leg.instance",
        "mine = True",
    ),
    _memory(
        "repeat, of park",
        "parked",
        'return "done" if leg.question_hand == parking.hand and mine else "stale"',
        'return "stale"',
    ),
    _memory("settle late, of park", "parked", "if left_ms <= 0 or envelope is None:", "if envelope is None:"),
    _memory(
        "keep, of park",
        "parked",
        "        part.keep_envelope(msg_id, record.head, envelope)\n",
        "        pass\n",
    ),
    _memory(
        "question",
        "parked",
        "or leg.state is not LegState.PARKED or leg.hand != hand:",
        "or leg.state is not LegState.PARKED:",
    ),
    _memory(
        "question, answered once",
        "parked",
        "or leg.state is not LegState.PARKED or leg.hand != hand:",
        "or leg.hand != hand:",
    ),
    _memory(
        "question, still open",
        "parked",
        "    if part.now_ms >= ends_at_ms(record.head, leg):\n",
        "    if part.now_ms < 0:\n",
    ),
    _memory(
        "sender, of an answer",
        "parked",
        'if record.head.sender != sender:\n        return "denied"',
        'if record.head.sender == "":\n        return "denied"',
    ),
    _memory(
        "question, whose", "parked", "Given(_sha1(leg.prompt), given, leg.agent)", "Given(_sha1(leg.prompt), given)"
    ),
)

_PYTHON = (
    python(
        "parked, its total",
        "envelope/ledger",
        "    if leg.total_at_ms:\n        return leg.total_at_ms\n",
        "",
        "contract/test_park.py::test_its_total_stands_still",
    ),
    python(
        "parked, nothing has failed",
        "delivery/retry",
        "    if leg.question_hand == leg.hand:",
        "    if leg.question_hand == '?':",
        "unit/sdk/test_questions.py::test_a_retry_that_asks_goes_on_at_once",
    ),
    python(
        "parked, its guards",
        "sdk/runs",
        "tuple(run.guards),",
        "(),",
        "unit/sdk/test_questions.py::test_effects_before_a_question_are_made_once",
    ),
    python(
        "parked, no settle",
        "sdk/runs",
        "        asked = parked_by(problem)\n",
        "        asked = None\n",
        "unit/sdk/test_questions.py::test_a_question_that_is_answered_after_two_hours",
    ),
    python(
        "repeat, of park",
        "delivery/inbox",
        "if error.retryable and self._clock.monotonic_ms() + pause_ms < give_up_at_ms:",
        "if error.code == '':",
        "unit/sdk/test_questions.py::test_a_park_whose_outcome_is_unknown_is_written_again",
    ),
    python(
        "question, the same one",
        "sdk/questions",
        "    if given.prompt != hashlib",
        "    if not hashlib",
        "unit/sdk/test_questions_refused.py::test_another_question_in_the_same_place_is_refused",
    ),
    python(
        "question, whose",
        "sdk/questions",
        'if given[number].agent in {"", self._agent_id}:',
        "if True:",
        "unit/sdk/test_questions_elsewhere.py::test_another_agent_that_comes_after_it_asks_anew",
    ),
    python(
        "question, of one's own",
        "sdk/questions",
        'if given[number].agent in {"", self._agent_id}:',
        "if False:",
        "unit/sdk/test_questions_elsewhere.py::test_what_does_not_fit_its_own_question_is_refused_all_the_same",
    ),
    python(
        "question, back to whom",
        "routing/filters",
        '    ("answered", asker),\n',
        "",
        "unit/sdk/test_questions_elsewhere.py::test_an_answer_goes_to_the_agent_that_has_asked",
    ),
    python(
        "question, ahead of a fresh one",
        "routing/filters",
        '    ("answered", asker),\n    ("tier", tier),\n    ("tried", fresh),\n',
        '    ("tier", tier),\n    ("tried", fresh),\n    ("answered", asker),\n',
        "unit/sdk/test_questions_elsewhere.py::test_also_in_a_retry",
    ),
    python(
        "question, barred from whom",
        "routing/decide",
        "(elsewhere and agent in leg.tried) or ",
        "",
        "unit/routing/test_better.py::test_answers_draw_nothing_to_where_it_is_barred_from",
    ),
    python(
        "question, not twice",
        "sdk/answering",
        "(known is None or known.hand != question.hand)",
        "(True)",
        "unit/sdk/test_answers.py::test_two_callers_of_one_key_are_one_question",
    ),
    python(
        "repeat, of an answer",
        "sdk/answering",
        'if verdict == "stale" and failures and',
        'if verdict == "" and failures and',
        "unit/sdk/test_answers.py::test_a_lost_reply_is_no_second_answer",
    ),
    python(
        "callers due, while it asks",
        "sdk/answering",
        "        if pending.answers or not pending.fixed:\n            self._pause(pending)\n",
        "",
        "unit/sdk/test_answers.py::test_whoever_takes_hours_to_decide_has_them",
    ),
    python(
        "callers due, after the answer",
        "sdk/answering",
        "        pending.counts_from_ms = ends_ms - total_ms\n        self._move(pending, ends_ms)\n",
        "",
        "unit/sdk/test_answers.py::test_after_the_answer_its_time_runs_again",
    ),
    python(
        "callers due, when all is forgotten",
        "sdk/answering",
        "self._answered(pending, question.leg, question.left_ms)",
        "pass",
        "unit/sdk/test_answers.py::test_nobody_waits_for_a_question_that_everything_has_forgotten",
    ),
)

MUTANTS = (*_LUA, *_MEMORY, *_PYTHON)
