"""Mutants of order lines: each guard is taken out of the Lua parts and of the memory backend, and caught by the same test."""

from typing import NamedTuple

from tests.mutants.lua_routers import node_id
from tests.mutants.mutant import Mutant


class Change(NamedTuple):
    """A text of a file and what stands there instead. `file`: below the Lua parts, or the memory backend."""

    file: str
    old: str
    new: str


def both(name: str, lua: Change, memory: Change, test: str) -> tuple[Mutant, Mutant]:
    """The same guard removed in both; `test` as in `lua_routers`."""
    guard, node = name.partition(",")[0], node_id(test)
    return (
        Mutant(f"lua:{name}", guard, f"reach/backend/lua/parts/{lua.file}.lua", lua.old, lua.new, node),
        Mutant(f"memory:{name}", guard, f"reach/backend/memory_backend/{memory.file}.py", memory.old, memory.new, node),
    )


_PAIRS = (
    both(
        "line head",
        Change("holding", "  if first(key) == r.m then\n", "  if first(key) then\n"),
        Change("holding", "    if first(part, record) == msg_id:\n", "    if first(part, record) is not None:\n"),
        "lines::test_the_first_is_handed_over_and_the_others_are_held",
    ),
    both(
        "line head, of one that came back",
        Change(
            "holding", "if not key or L.st == 'queued' or", "if not key or L.st == 'queued' or L.st == 'returned' or"
        ),
        Change(
            "holding",
            "leg.state is LegState.QUEUED or",
            "leg.state in {LegState.QUEUED, LegState.RETURNED} or",
        ),
        "lines_lost::test_a_line_is_not_handed_over_to_one_that_it_has_lost",
    ),
    both(
        "line head, of one that asks",
        Change("deciding_again", "return line(r) and first(line(r)) == d.m\n", "return line(r)\n"),
        Change(
            "route", "return has_line(record) and first(part, record) == decision.msg_id", "return has_line(record)"
        ),
        "lines::test_an_again_of_one_that_is_not_the_first_is_silence",
    ),
    both(
        "line head, before the room",
        Change("room", "or (p.act == 'deliver' and behind(r, L)) then", "then"),
        Change("room", 'or (plan.act == "deliver" and is_behind(part, msg_id, record)):', ":"),
        "lines::test_one_that_is_held_needs_no_room",
    ),
    both(
        "line next",
        Change("lining", "if was_first then release(front", "if not was_first then release(front"),
        Change("lining", "    if was_first:\n", "    if not was_first:\n"),
        "lines::test_each_end_calls_the_next",
    ),
    both(
        "line next, of one that was dropped",
        Change("lining", "if dropped and not mine then", "if false then"),
        Change("lining", "head.dropped and not mine:", "not head:"),
        "lines_lost::test_whoever_drops_somebody_calls_the_next",
    ),
    both(
        "line rearm",
        Change("visiting", "if not may_ask then return rearm(L) end", "if not may_ask then return r.head.ta end"),
        Change(
            "due",
            "            part.append_again(msg_id, number, leg.hand)\n        record.change(number, rearm",
            "            part.append_again(msg_id, number, leg.hand)\n        else:\n            return record.head.total_at_ms\n"
            "        record.change(number, rearm",
        ),
        "lines_lost::test_who_is_put_back_may_not_go_for_17_s",
    ),
    both(
        "line rearm, of the first look",
        Change("holding", "arm(r, L, now + 3000)", "arm(r, L, r.head.ta)"),
        Change("holding", "part.now_ms + FIRST_REARM_MS)", "record.head.total_at_ms)"),
        "lines::test_a_call_that_is_lost_is_made_again",
    ),
    both(
        "line fence",
        Change(
            "deciding_again",
            "if not L or (L.h or '0') ~= d.h then",
            "if not L or ((L.h or '0') ~= d.h and L.st ~= 'held') then",
        ),
        Change(
            "route",
            "    if leg.hand != decision.hand:\n",
            "    if leg.hand != decision.hand and leg.state is not LegState.HELD:\n",
        ),
        "lines::test_an_again_with_another_hand_calls_nobody",
    ),
    both(
        "line drop",
        Change("lining", "    redis.pcall('LPOP', key)\n", "    do return nil end\n"),
        Change("lining", "        _take_out(part, record, head, only_first=True)\n", "        return None\n"),
        "lines_lost::test_a_first_whose_record_is_lost_is_dropped",
    ),
    both(
        "line drop, of a message of another line",
        Change("lining", "r and r.head.li == name and leg(r, 0)", "r and leg(r, 0)"),
        Change("lining", "found is not None and found.head.line == record.head.line else", "found is not None else"),
        "lines_lost::test_an_open_message_of_another_line_holds_up_nobody",
    ),
    both(
        "line once",
        Change("lining", "  if not stands(key, r.m) then\n    if (tonumber", "  if true then\n    if (tonumber"),
        Change("lining", "    if msg_id not in line:\n", "    if line is not None:\n"),
        "lines_lost::test_one_whose_record_was_lost_and_that_is_sent_again_stands_there_once",
    ),
    both(
        "line remove",
        Change("lining", "redis.pcall('LREM', key, 0, r.m)", "redis.pcall('LREM', key, 1, r.m)"),
        Change(
            "lining",
            "    _take_out(part, record, msg_id)\n",
            "    _take_out(part, record, msg_id, only_first=was_first)\n",
        ),
        "lines_lost::test_whoever_ends_leaves_no_trace_however_often_it_stands_there",
    ),
    both(
        "line rejoin",
        Change("lining", "if L.jn and not stands(key, r.m) then", "if false then"),
        Change("lining", "if leg.joined and msg_id not in line:", "if not leg.joined and msg_id not in line:"),
        "lines_lost::test_who_runs_when_the_line_is_lost_comes_back_in_front_and_is_waited_for",
    ),
    both(
        "line rejoin, in front",
        Change("lining", "push('LPUSH', key, r, r.m)", "push('RPUSH', key, r, r.m)"),
        Change("lining", "_push(part, record, msg_id, at_front=True)", "_push(part, record, msg_id)"),
        "lines_lost::test_who_runs_when_the_line_is_lost_comes_back_in_front_and_is_waited_for",
    ),
    both(
        "line quiet",
        Change("lining", "if not string.find(table.concat(some, ' '), '@', 1, true) then", "if false then"),
        Change("lining", 'if not any("@" in member for', 'if any("@" in member for'),
        "lines_lost::test_who_is_put_back_may_not_go_for_17_s",
    ),
    both(
        "line quiet, for as long as a lease",
        Change("lining", "QUIET_MS, MAX_DROPPED = 10000, 17000,", "QUIET_MS, MAX_DROPPED = 10000, 9000,"),
        Change("lining", "QUIET_MS = 17_000", "QUIET_MS = 9_000"),
        "lines_lost::test_who_is_put_back_may_not_go_for_17_s",
    ),
    both(
        "line duplicate",
        Change(
            "sending",
            "    return duplicate(old, d)\n",
            "    if line(old) then call('RPUSH', line(old), d.m) end\n    return duplicate(old, d)\n",
        ),
        Change(
            "route",
            '        return RouteResult("done", known=attach(part, decision, old))',
            "        part.store.make_line(part.keys.line(part.number, old.head.line)).append(decision.msg_id)\n"
            '        return RouteResult("done", known=attach(part, decision, old))',
        ),
        "lines::test_a_duplicate_touches_nothing",
    ),
    both(
        "line duplicate, of one that was cancelled",
        Change(
            "sending",
            "lapse(r, t.l, L, 'done', 'cancelled', 'cancelled before it was routed', true)",
            "lapse(r, t.l, L, 'done', 'cancelled', 'cancelled before it was routed', true)\n      if line(r) then join(r, L) end",
        ),
        Change(
            "route",
            '        hands, known = [], "tombstone"\n',
            "        part.store.make_line(part.keys.line(part.number, head.line)).append(decision.msg_id)\n"
            '        hands, known = [], "tombstone"\n',
        ),
        "lines::test_a_send_that_was_cancelled_before_appends_nothing",
    ),
)

MUTANTS = (
    *(mutant for pair in _PAIRS for mutant in pair),
    Mutant(
        "python:line head",
        "line head",
        "reach/delivery/judge.py",
        "line=rules.line_of(envelope),",
        'line="",',
        "tests/unit/sdk/test_order.py::test_a_hundred_of_one_key_over_three_agents_are_handled_in_order_and_another_keys_beside_them",
    ),
    Mutant(
        "python:line next",
        "line next",
        "reach/delivery/judge.py",
        "LegState.WAITING, LegState.HELD, LegState.QUEUED})",
        "LegState.WAITING, LegState.QUEUED})",
        "tests/unit/sdk/test_order.py::test_a_hundred_of_one_key_over_three_agents_are_handled_in_order_and_another_keys_beside_them",
    ),
)
