"""Mutants of the stages of a broadcast: each guard is taken out of the Lua parts and of the memory backend, and caught by the same test."""

from tests.mutants.lines import Change, both
from tests.mutants.mutant import Mutant

_PAIRS = (
    both(
        "stage check",
        Change(
            "deciding_again", "if r.all then return is_free(r, (stage_of(r, d.l))) end", "if r.all then return true end"
        ),
        Change("route", "return is_free(record, stage_of(record, decision.leg))", "return True"),
        "stages::test_a_forged_again_releases_nothing",
    ),
    both(
        "stage check, of every hand-over",
        Change("observing", "  if not is_free(r, (stage_of(r, l))) then\n", "  if false then\n"),
        Change("observing", "    if not is_free(record, stage_of(record, number)):\n", "    if number < 0:\n"),
        "stages::test_only_the_first_stage_is_handed_over",
    ),
    both(
        "stage check, of all before",
        Change("staging", "    if S[3] > 0 or ((", "    if (("),
        Change("staging", "all(not stage.open and (record", "all((record"),
        "stages::test_a_forged_again_releases_nothing",
    ),
    both(
        "stage call",
        Change("staging", "return S and call_stage(r, S) or NONE", "return NONE"),
        Change(
            "staging",
            "            call_stage(part, msg_id, record, stage)\n            return ()\n",
            "            return ()\n",
        ),
        "stages::test_the_last_success_of_a_stage_calls_the_next",
    ),
    both(
        "stage call, of what has no plan",
        Change("deciding_again", "  if S then call_stage(r, S) end\n", ""),
        Change("route", "        call_stage(part, msg_id, record, record.head.stages[k])\n", "        pass\n"),
        "stages::test_what_has_no_plan_is_called_once_more",
    ),
    both(
        "stage rearm",
        Change("staging", "return arm(r, L, now + 3000)", "return"),
        Change("staging", "part.arm(msg_id, record, number, part.now_ms + CALLED_REARM_MS)", "pass"),
        "stages::test_a_lost_again_is_made_up_for",
    ),
    both(
        "stage rearm, of who may not begin",
        Change("visiting", " or waits(r, l, L) then", " then"),
        Change("due", " or waits(record, number):", ":"),
        "stages::test_a_question_in_a_stage_stops_the_clock_of_those_behind_it",
    ),
    both(
        "stage failed",
        Change("staging", "not r.head.go then return left_behind(r, k) end", "not r.head.go then return NONE end"),
        Change("staging", "return tuple(_behind(record, at))", "return ()"),
        "stages::test_a_stage_that_fails_ends_those_behind_it",
    ),
    both(
        "stage count",
        Change("staging", "S[4] + (L.ss == 'success' and 0 or 1)", "S[4]"),
        Change("staging", 'was.failed + (leg.status != "success")', "was.failed"),
        "stages::test_a_stage_that_fails_ends_those_behind_it",
    ),
    both(
        "stage empty",
        Change("staging", "    if (S[2] == 0 or S[4] > 0) and not", "    if S[4] > 0 and not"),
        Change("staging", "return not stage.count or stage.failed > 0", "return stage.failed > 0"),
        "stages::test_an_empty_stage_fails_when_it_is_reached",
    ),
    both(
        "stage still",
        Change("staging", "if r.still or timed_out or not", "if timed_out or not"),
        Change("staging", "if record.still or timed_out or any(", "if timed_out or any("),
        "stages::test_a_cancel_ends_held_legs_and_calls_nobody",
    ),
    both(
        "stage still, at the end of total",
        Change("staging", "if r.still or timed_out or not", "if r.still or not"),
        Change("staging", "if record.still or timed_out or any(", "if record.still or any("),
        "stages::test_a_result_past_total_calls_nobody",
    ),
    both(
        "stage once",
        Change("staging", "    if L and not L.fi then out[", "    if L then out["),
        Change(
            "staging",
            "leg is not None and not leg.finished_at_ms:\n            yield",
            "leg is not None:\n            yield",
        ),
        "stages_observed::test_under_another_policy_a_new_round_leaves_what_has_ended_alone",
    ),
    both(
        "stage round",
        Change(
            "reopening",
            "if opens(r.legs[l]) then S[3] = S[3] + 1 elseif",
            "if opens(r.legs[l]) then S[3] = S[3] elseif",
        ),
        Change("staging", "sum(n in opened for n in legs)", "0"),
        "stages_observed::test_a_new_round_opens_what_was_retryable_and_what_stood_behind_it",
    ),
    both(
        "stage hopeless",
        Change("sending", "ipairs(old and not r.still and hopeless(r) or NONE)", "ipairs(NONE)"),
        Change(
            "route",
            "hopeless(record) if old is not None else ()",
            "()",
        ),
        "stages_observed::test_a_new_round_opens_nothing_behind_a_stage_that_has_failed_for_good",
    ),
    both(
        "stage observe",
        Change("reopening", "op + (p.act == 'observe' and 0 or 1)", "op + 1"),
        Change("route", 'if each.plan is None or each.plan.act != "observe"]', "if each]"),
        "stages::test_only_the_first_stage_is_handed_over",
    ),
    both(
        "stage observe, of who answers",
        Change("offering", "  if named and L.st == 'observed' then", "  if false then"),
        Change(
            "taking", "and leg is not None and leg.state is LegState.OBSERVED:", "and leg is not None and number < 0:"
        ),
        "stages_observed::test_who_is_in_no_stage_is_shown_a_copy_and_answers_nothing",
    ),
)

MUTANTS = (
    *(mutant for pair in _PAIRS for mutant in pair),
    Mutant(
        "python:stage check",
        "stage check",
        "reach/routing/staging.py",
        "later = [Hold(step.agent) for",
        "later: list[Step] = [step for",
        "tests/unit/routing/test_staging.py::test_the_first_stage_begins_and_the_others_are_held",
    ),
    Mutant(
        "python:stage call",
        "stage call",
        "reach/delivery/staging.py",
        "if n != number and leg.state is LegState.HELD}",
        "if n < 0 and leg.state is LegState.HELD}",
        "tests/unit/delivery/test_staging.py::test_all_that_are_held_in_a_stage_are_decided_for_together",
    ),
)
