"""Mutants of what bounds the others' room: share, open messages, rate limits."""

from tests.mutants.lua_routers import lua
from tests.mutants.memory_routers import memory
from tests.mutants.python import python

_HALF = "share::test_one_sender_fills_half_of_an_inbox_and_others_get_in"
_TAKEN = "share::test_what_was_taken_makes_room"
_RETURNS = "share::test_a_reader_without_take_makes_room_with_its_answer"
_ENDED = "inflight::test_whatever_ends_a_message_makes_room"
_FLOOR = "share::test_a_count_that_was_lost_does_not_fall_below_nothing_beside_another"
_FOUND = "share::test_a_count_that_says_more_than_lies_there_blocks_nobody"
_FOUND_OPEN = "inflight::test_a_count_that_says_more_than_is_open_goes"
_ALL = "inflight::test_over_the_bound_of_all_nothing_is_written"
_HALF_WAY = "forged::test_a_repeat_of_what_failed_half_way_runs_nothing_and_the_next_round_runs"
_REFUSED = "unit/delivery/test_refused.py"
_BRIM = "spend_rate::test_a_limit_that_is_lowered_holds_at_once"
_STEPPED = "spend_rate::test_a_clock_that_steps_back_fills_nothing_and_holds_up_nobody"
_BACK = "spend_rate::test_what_came_to_nothing_is_given_back_and_never_more"

MUTANTS = (
    lua("share", "parts/sharing.lua", "if all <= lying_with(agent) then return true end", "", _HALF),
    lua("share, of open messages", "parts/sending.lua", "if bound then return {'full', bound} end", "", _ALL),
    lua("counted out", "parts/offering.lua", "    unshared(r, L)\n", "", _TAKEN),
    lua(
        "counted out, when it comes back",
        "parts/giving_back.lua",
        "  unshared(r, L)\n",
        "",
        _RETURNS,
    ),
    lua("counted out, of open messages", "parts/sharing.lua", "  less(P .. 'inflight', '*')\n", "", _ENDED),
    lua(
        "floor",
        "parts/sharing.lua",
        "n < 1 then redis.pcall('HDEL'",
        "false then redis.pcall('HDEL'",
        _FLOOR,
    ),
    lua(
        "found out",
        "parts/sharing.lua",
        "if all <= lying_with(agent) then return true end",
        "if all >= 0 then return true end",
        _FOUND,
    ),
    lua(
        "found out, of open messages",
        "parts/sharing.lua",
        "if not why or math.max(all, own) <= (type(due) == 'number' and due or 0) then return why end",
        "if due ~= -1 then return why end",
        _FOUND_OPEN,
    ),
    lua("brim", "spend_rate.lua", "there = math.min(there + past * rate, holds)", "there = there + past * rate", _BRIM),
    lua("stepped", "spend_rate.lua", "(wait_ms > 0 and not stepped)", "wait_ms > 0", _STEPPED),
    lua("given back", "spend_rate.lua", "if back then left = ", "if false then left = ", _BACK),
    memory(
        "share",
        "sharing",
        "_count(counts, head.sender) < most:",
        "_count(counts, head.sender) < most or counts:",
        _HALF,
    ),
    memory("share, of open messages", "route", "    if bound:\n", "    if not bound and not part:\n", _ALL),
    memory("counted out", "taking", "    unshare(part, record, number)\n", "", _TAKEN),
    memory(
        "counted out, of open messages", "sharing", "record.head.open > 1 or not", "record.head.open > 0 or not", _ENDED
    ),
    lua("window, of what failed half-way", "parts/sending.lua", "  d.opened = r\n", "", _HALF_WAY),
    memory("window, of what failed half-way", "route", "    part.opened = record\n", "", _HALF_WAY),
    python(
        "window, of what was too many",
        "delivery/refusing",
        "return msgspec.structs.replace(send, head=head, plans=plans, max_open=0, max_open_sender=0)",
        "return msgspec.structs.replace(send, head=head, plans=plans, msg_id=send.msg_id[::-1], max_open=0, max_open_sender=0)",
        f"{_REFUSED}::test_a_repeat_of_what_was_too_many_runs_nothing_once_there_is_room",
    ),
    python(
        "window, of what was buried",
        "delivery/refusing",
        "    if not isinstance(case.decision, Send):\n",
        "    if isinstance(case.decision, Send):\n",
        f"{_REFUSED}::test_a_repeat_of_what_was_buried_runs_nothing_and_the_letter_can_be_sent_again",
    ),
    python(
        "share, of what ends at once",
        "delivery/inflight",
        ' or all(plan.act == "finish" for plan in decision.plans):',
        ":",
        f"{_REFUSED}::test_what_ends_at_once_needs_no_room",
    ),
    python(
        "greater, of a refusal",
        "delivery/answers",
        "round=error.round or 1",
        "round=1",
        f"{_REFUSED}::test_a_refusal_names_the_round_that_was_asked_for",
    ),
    python(
        "greater, of what is no envelope",
        "envelope/salvage",
        "round=round_ if 1 <= round_ <= MAX_ROUND else None",
        "round=None",
        f"{_REFUSED}::test_a_refusal_names_the_round_that_was_asked_for",
    ),
    memory("floor", "sharing", "    if left > 0:\n", "    if left:\n", _FLOOR),
    memory(
        "found out", "sharing", "<= lying_with(part, agent):\n        return True", ">= 0:\n        return True", _FOUND
    ),
    memory(
        "found out, of open messages",
        "sharing",
        "if max(everybody, own) > (",
        "if max(everybody, own) < -(",
        _FOUND_OPEN,
    ),
    memory("brim", "rating", "+ past_ms * flow, holds)", "+ past_ms * flow, 10**15)", _BRIM),
    memory("stepped", "rating", "(wait_ms and not stepped)", "wait_ms", _STEPPED),
    memory("given back", "rating", "left = min(x.there + x.wanted, x.holds) if back", "left = x.there if back", _BACK),
    python(
        "given back, by a router",
        "delivery/rates",
        "            if agent_id not in used:\n",
        "            if agent_id in used:\n",
        "unit/delivery/test_rates.py::test_a_hand_over_that_came_to_nothing_is_given_back",
    ),
    python(
        "given back, behind those who wait",
        "delivery/turns",
        "behind_ms = self.next_ms",
        "behind_ms = 0",
        "unit/delivery/test_rates.py::test_who_comes_new_does_not_pass_those_who_wait",
    ),
    python(
        "given back, after a missed turn",
        "delivery/turns",
        "            self.later_ms += missed_ms\n",
        "",
        "unit/delivery/test_rates.py::test_who_finds_nothing_at_its_turn_is_the_first_at_the_next",
    ),
    python(
        "given back, from who waits no more",
        "delivery/turns",
        "if now_ms - at_ms < SEEN_MS:",
        "if msg_id:",
        "unit/delivery/test_rates.py::test_turns_of_those_who_wait_no_more_hold_nobody_up",
    ),
    python(
        "given back, and who comes meanwhile",
        "routing/nobody",
        "        wait_ms = min(wait_ms, LAST_RECHECK_MS)\n",
        "",
        "unit/sdk/test_rate_limit.py::test_who_waits_for_a_limit_sees_who_comes_meanwhile",
    ),
    python(
        "share, of an env",
        "delivery/inflight",
        "max_open=most, max_open_sender=mine)",
        "max_open=0, max_open_sender=mine)",
        "integration/test_bounds.py::test_over_what_may_be_open_it_is_refused_and_only_its_next_round_runs",
    ),
)
