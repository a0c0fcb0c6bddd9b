"""Mutants of what is told to the routers to be recorded: an end that nobody records, one that is recorded twice, or wrong."""

from tests.mutants.lua_routers import lua
from tests.mutants.memory_routers import memory

_CANCEL = "untold::test_a_cancel_tells_of_the_run_that_it_ends"
_NOBODY = "untold::test_a_cancel_of_what_nobody_has_had_tells_of_no_run"
_ROUND = "untold::test_the_second_round_says_so_and_its_hand_is_of_no_run"
_OWN = "untold::test_whoever_records_his_run_himself_is_believed"
_RUN = "untold::test_a_run_that_nobody_records_is_told_with_its_end"
_GOES_ON = "untold::test_a_run_that_has_not_ended_the_leg_says_so"
_ALL = "untold::test_one_of_a_call_that_is_not_recorded_has_all_of_it_told"
_DUE = "untold::test_what_a_caller_ends_is_told_and_what_a_router_ends_is_not"
_DECIDED = "untold::test_what_a_router_decides_is_told_to_nobody_else"
_HALF_WAY = "untold::test_what_fails_half_way_is_told_to_the_router_that_has_tried"
_LINE = "untold::test_a_line_without_room_is_told_where_no_send_is_answered"
_BYTES = "untold::test_the_bytes_that_are_lost_with_an_inbox_are_told"
_STAGE = "untold::test_the_legs_behind_a_stage_that_has_failed_are_told"
_NO_STAGE = "untold::test_an_agent_that_answers_as_a_failed_stage_does_tells_of_no_stage"
_WHOSE = "untold::test_whose_answer_has_ended_it_is_told"
_SECOND = "untold::test_a_second_opinion_that_ends_it_as_its_inbox_closes_is_told"
_LEFT = "untold::test_an_answer_that_is_all_that_is_left_is_told_once"

MUTANTS = (
    # ---------------------------------------------------------------- an end that nobody records
    lua("untold", "parts/closing.lua", "  if not told then untold_end(r, l, L) end\n", "", _CANCEL),
    memory(
        "untold",
        "closing",
        "not told:\n        untold_end(part, msg_id, record, number)\n\n\ndef give",
        "told is None:\n        untold_end(part, msg_id, record, number)\n\n\ndef give",
        _CANCEL,
    ),
    lua("untold, by a caller's due", "parts/visiting.lua", "message, ARGV[1] == '')", "message, true)", _DUE),
    memory("untold, by a caller's due", "due", "told = not self.of_caller", "told = True", _DUE),
    lua(
        "untold, behind a stage",
        "parts/closing.lua",
        "  if r.all and not run and L.cd == 'stage.failed' then untold_end(r, l, L) end\n",
        "",
        _STAGE,
    ),
    memory(
        "untold, behind a stage",
        "closing",
        'if record.head.scope == "all" and not ran and record',
        "if record.head.open < 0 and record",
        _STAGE,
    ),
    lua(
        "untold, of a second opinion",
        "parts/giving_back.lua",
        "    if not told then untold_end(r, l, L) end\n",
        "",
        _SECOND,
    ),
    memory(
        "untold, of a second opinion",
        "closing",
        "        if not told:\n            untold_end",
        "        if told is None:\n            untold_end",
        _SECOND,
    ),
    lua("untold, of lost bytes", "parts/giving_back.lua", "  told = told and L.b\n", "", _BYTES),
    memory(
        "untold, of lost bytes", "closing", "    told = told and record.legs[number].best is not None\n", "", _BYTES
    ),
    lua("untold, in a line", "parts/holding.lua", "L.st == 'new')\n", "true)\n", _LINE),
    memory("untold, in a line", "holding", "told=leg.state is LegState.NEW", "told=True", _LINE),
    lua("untold, of a run", "settle.lua", "  if not records then untold(", "  if false then untold(", _RUN),
    memory("untold, of a run", "settling", "    if not records:\n", "    if records is None:\n", _RUN),
    memory("untold, of one of several runs", "settling", "all(each.records", "any(each.records", _ALL),
    # ---------------------------------------------------------------- what is said of it
    lua("untold, and whose run it is", "parts/untold.lua", "L.ba or L.a, L.ba and L.bi or L.i)", "L.a, L.i)", _SECOND),
    memory(
        "untold, and whose run it is", "closing", " if leg.by_agent else leg\n", " if leg is None else leg\n", _SECOND
    ),
    lua(
        "untold, and in which run", "parts/untold.lua", "(L.ba or string.sub(L.h or '0', 1, 1) == '0')", "L.ba", _NOBODY
    ),
    memory(
        "untold, and in which run", "closing", '(leg.by_agent or leg.hand.startswith("0"))', "leg.by_agent", _NOBODY
    ),
    lua("untold, and in which run it was answered", "parts/untold.lua", "(L.ba or string.sub(", "(string.sub(", _WHOSE),
    memory("untold, and in which run it was answered", "closing", "(leg.by_agent or leg.hand", "(leg.hand", _WHOSE),
    lua(
        "untold, and which run has failed",
        "settle.lua",
        "answer.code, attempt, began",
        "answer.code, (L.n or 0) + 1, began",
        _GOES_ON,
    ),
    memory(
        "untold, and which run has failed",
        "settling",
        "number, leg, answer.code",
        "number, record.legs[number], answer.code",
        _GOES_ON,
    ),
    lua("untold, and in which round", "parts/untold.lua", "(r.head.ro or 1)", "1", _ROUND),
    memory("untold, and in which round", "closing", 'record.head.round},"attempt', '1},"attempt', _ROUND),
    lua("untold, and whether it has ended", "parts/untold.lua", "tostring(L.fi ~= nil)", "'true'", _GOES_ON),
    memory(
        "untold, and whether it has ended",
        "closing",
        "    ended = bool(leg.finished_at_ms)\n",
        "    ended = True\n",
        _GOES_ON,
    ),
    lua("untold, and since when it ran", "parts/untold.lua", "began * 1000)", "began)", _RUN),
    memory("untold, and since when it ran", "closing", "{began_ms * 1000}", "{began_ms}", _RUN),
    # ---------------------------------------------------------------- an end that is recorded twice
    lua("told", "parts/closing.lua", "  if not told then untold_end(r, l, L) end\n", "  untold_end(r, l, L)\n", _DUE),
    memory("told", "due", "told = not self.of_caller", "told = False", _DUE),
    lua(
        "told, of a tombstone",
        "parts/sending.lua",
        "'cancelled before it was routed', true)",
        "'cancelled before it was routed')",
        _DECIDED,
    ),
    memory(
        "told, of a tombstone",
        "route",
        '"cancelled before it was routed", told=True)',
        '"cancelled before it was routed")',
        _DECIDED,
    ),
    lua(
        "told, of a send half way",
        "parts/rescuing.lua",
        "'backend.unavailable', why, true)",
        "'backend.unavailable', why)",
        _HALF_WAY,
    ),
    memory(
        "told, of a send half way",
        "rescuing",
        '                    part, decision.msg_id, record, number, LegState.DONE, "backend.unavailable", message, told=True',
        '                    part, decision.msg_id, record, number, LegState.DONE, "backend.unavailable", message',
        _HALF_WAY,
    ),
    lua(
        "told, of a decision half way",
        "parts/rescuing.lua",
        "string.sub(why, 1, 300), true)",
        "string.sub(why, 1, 300))",
        _HALF_WAY,
    ),
    memory(
        "told, of a decision half way",
        "rescuing",
        'LegState.EXPIRED, "backend.unavailable", message, told=True)',
        'LegState.EXPIRED, "backend.unavailable", message)',
        _HALF_WAY,
    ),
    lua("told, in a line", "parts/holding.lua", "' messages waiting', L.st == 'new')", "' messages waiting')", _LINE),
    memory("told, in a line", "holding", "told=leg.state is LegState.NEW", "told=False", _LINE),
    lua("told, of a run", "settle.lua", "* 9] == '1'", "* 9] == '2'", _OWN),
    memory("told, of a run", "settling", "    if not records:\n", "    if settlement:\n", _OWN),
    lua("told, behind no stage", "parts/closing.lua", "r.all and not run and L.cd", "r.all and L.cd", _NO_STAGE),
    memory("told, behind no stage", "closing", '"all" and not ran and', '"all" and', _NO_STAGE),
    lua("told, of an answer that is left", "parts/visiting.lua", "or nil, nil, true) then", "or nil) then", _LEFT),
    memory("told, of an answer that is left", "due", "answer=answer, told=True)", "answer=answer)", _LEFT),
)
