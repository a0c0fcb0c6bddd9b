"""Mutants of the queues for room: each guard is taken out of the Lua parts and of the memory backend, and caught by the same test."""

from tests.mutants.lines import Change, both
from tests.mutants.python import python

_WAITERS = "integration/test_waiters.py"

_PAIRS = (
    both(
        "behind who waits",
        Change("room", "some and function(queue) return before(r, l, L, queue) end or nobody", "nobody"),
        Change("room", "filled(part, record, plan, before) if some else ", ""),
        "room::test_who_comes_new_does_not_pass_who_waits",
    ),
    both(
        "behind who waits, who stands there too",
        Change("room", "if type(n) == 'number' then return n end\n", "if type(n) == 'number' then return 0 end\n"),
        Change("room", "return queue.ranked().index(mine)", "return 0"),
        "room::test_the_second_in_the_queue_does_not_pass_the_first",
    ),
    both(
        "behind who waits, by lanes",
        Change("room", "return (LANE[H.la] or 0) + (H.at or now)", "return H.at or now"),
        Change("room", "return _LANE[head.lane] + (", "return ("),
        "room::test_a_higher_lane_goes_first_and_passes",
    ),
    both(
        "room told",
        Change("closing", "    entry_gone(L.a)\n", ""),
        Change("waking", '    wake(part, f"{agent}:all")\n', ""),
        "room::test_a_slot_that_is_free_again_calls_the_oldest_who_waits_and_nobody_else",
    ),
    both(
        "room told, of a share",
        Change("sharing", "  less_queued(L.a, r.head.la, r.head.s)\n", ""),
        Change("sharing", "        less_queued(part, leg.agent, record.head)\n", ""),
        "room::test_whatever_bound_it_is_that_refuses",
    ),
    both(
        "told once",
        Change("waking", "elseif L.wa then i = i + 1", "elseif L.wa or (L.u or 0) <= now then i = i + 1"),
        Change("waking", "        if leg.woken_by:\n", "        if leg.woken_by or leg.until_ms <= part.now_ms:\n"),
        "room::test_who_looks_again_by_itself_is_told_too_and_leaves_the_room_to_the_next",
    ),
    both(
        "told once, and not all",
        Change("waking", "      save(r)\n      return true\n", "      save(r)\n"),
        Change(
            "waking", "        part.save(msg_id, record)\n        return True\n", "        part.save(msg_id, record)\n"
        ),
        "room::test_a_slot_that_is_free_again_calls_the_oldest_who_waits_and_nobody_else",
    ),
    both(
        "room looked for",
        Change("queueing", "  if not free then return false end\n", "  if not nil then return false end\n"),
        Change("queueing", "    if free:\n", "    if not number and not free:\n"),
        "room::test_room_that_has_come_between_the_refusal_and_the_wait_is_taken_at_once",
    ),
    both(
        "room looked for, and kept",
        Change(
            "queueing",
            "if room and not free then free = stand_for(r, rooms[i], names)",
            "if room and not free then free = stand_for(r, rooms[i], {})",
        ),
        Change("queueing", "            names += mine\n", ""),
        "room::test_room_that_has_come_between_the_refusal_and_the_wait_is_taken_at_once",
    ),
    both(
        "room passed on",
        Change("waking", "  if told and string.match(told, '^[^:]*') ~= to then wake(told) end\n", ""),
        Change(
            "waking",
            "    if leg.woken_by and agent_of(leg.woken_by) != to:\n        wake(part, leg.woken_by)\n",
            "",
        ),
        "room::test_who_was_called_and_does_not_go_there_leaves_the_room_to_the_next",
    ),
    both(
        "room passed on, by who waits for another",
        Change("queueing", "      if told == name then wake(name) end\n", ""),
        Change("queueing", "            if leg.woken_by == name:\n                wake(part, name)\n", ""),
        "room::test_who_was_called_and_does_not_go_there_leaves_the_room_to_the_next",
    ),
    both(
        "room for those before",
        Change("queueing", "return full ~= nil or wake(name, math.min(left, most))", "return full ~= nil or left > 0"),
        Change(
            "queueing",
            "return isinstance(left, Filled) or wake(part, name, min(left, most))",
            "return isinstance(left, Filled) or left > 0",
        ),
        "room::test_more_slots_are_found_by_whoever_looks_and_go_to_the_oldest",
    ),
    both(
        "room left",
        Change("queueing", "then pass_on(r, p, name, MAX_TOLD) end", "then wake('') end"),
        Change(
            "queueing",
            "        if agent_of(name) == plan.agent:\n            _pass_on(part, record, plan, name, MAX_TOLD)\n",
            "        key_of(part, name)\n",
        ),
        "room::test_more_slots_are_found_by_whoever_looks_and_go_to_the_oldest",
    ),
    both(
        "room left, and no more than that",
        Change("queueing", "wake(name, math.min(left, most))", "wake(name, most)"),
        Change("queueing", "wake(part, name, min(left, most))", "wake(part, name, most)"),
        "room::test_two_slots_that_are_free_again_call_two",
    ),
    both(
        "monotone",
        Change("lanes", "return pending.err and n or n - pending[1]", "return n"),
        Change("room", "part.untaken(agent, head.lane)", "lying_with(part, agent)"),
        "room::test_a_greater_bound_never_admits_less_and_what_runs_does_not_count",
    ),
)

#: What the models do not have: which bound of an inbox admits what.
GUARDS = frozenset({"monotone"})

MUTANTS = (
    *(mutant for pair in _PAIRS for mutant in pair),
    python(
        "room told, which agents",
        "delivery/router",
        "            case.decision = waiting_for(case.decision, case.rooms)\n",
        "            pass\n",
        f"{_WAITERS}::test_newcomers_do_not_pass_who_waits_for_room",
    ),
    python(
        "room told, of those not asked",
        "delivery/judge",
        "**not_asked(case.choice, case.leg, self._by.index, policy, now_ms)}",
        "}",
        f"{_WAITERS}::test_room_that_comes_anywhere_is_taken_by_the_oldest",
    ),
    python(
        "room told, and taken",
        "routing/filters",
        '    ("room", roomy),\n',
        "",
        "unit/routing/test_filters.py::test_who_was_told_of_room_goes_there",
    ),
    python(
        "monotone, as planned",
        "delivery/planning",
        "return 1, _slots(",
        "return 9, _slots(",
        "unit/delivery/test_rooms.py::test_a_greater_bound_is_never_planned_as_a_smaller_one",
    ),
)
