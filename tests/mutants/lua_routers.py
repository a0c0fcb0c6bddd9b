"""Mutants of the Lua steps of routers: route, due."""

from tests.mutants.mutant import Mutant


def lua(name: str, file: str, old: str, new: str, test: str, *, raises: str = "") -> Mutant:
    """`test`: its node id, or where it lies in tests/contract only `take::test_x`. The guard is what the name begins with."""
    return Mutant(f"lua:{name}", name.partition(",")[0], f"reach/backend/lua/{file}", old, new, node_id(test), raises)


def node_id(test: str) -> str:
    """The node id of a contract test that is named `take::test_x`; any other as it is."""
    file, _, function = test.partition("::")
    return test if "/" in test else f"tests/contract/test_{file}.py::{function}"


MUTANTS = (
    # ---------------------------------------------------------------- the doors
    lua(
        "xack",
        "parts/rescuing.lua",
        "if call('XACK', d.x, 'routers', d.id) == 0 then return false end",
        "call('XACK', d.x, 'routers', d.id)",
        "route_send::test_a_second_run_is_skipped_and_writes_nothing",
    ),
    lua(
        "xack, of a duplicate",
        "parts/sending.lua",
        "if not acknowledge(d) then return {'skipped'} end\n    return duplicate(old, d)",
        "acknowledge(d)\n    return duplicate(old, d)",
        "route_duplicates::test_a_duplicate_that_another_router_has_answered_is_skipped",
    ),
    lua(
        "xack, of an again",
        "parts/deciding_again.lua",
        "if not acknowledge(d) then return {'skipped'} end",
        "acknowledge(d)",
        "route_again::test_what_was_acknowledged_is_not_applied_when_its_leg_asks_once_more",
    ),
    lua(
        "xack, of a refusal",
        "route.lua",
        "if not acknowledge(d) then return {'skipped'} end",
        "acknowledge(d)",
        "route_send::test_a_refused_entry_is_answered_acknowledged_and_not_recorded",
    ),
    lua(
        "quiet",
        "parts/deciding_again.lua",
        "if not asks(r, L, d) then return {acknowledge(d) and 'done' or 'skipped', 'silent'} end",
        "if not asks(r, L, d) then\n"
        "    local ok = acknowledge(d)\n"
        "    for _, box in ipairs(r and not r.head.tomb and r.head.rt or {}) do stored(r, box) end\n"
        "    return {ok and 'done' or 'skipped', 'silent'}\n"
        "  end",
        "route_again::test_an_ended_leg_is_left_alone",
    ),
    lua(
        "quiet, of a leg that runs",
        "parts/deciding_again.lua",
        "return L.st == 'returned' or",
        "return L.st == 'running' or L.st == 'returned' or",
        "route_again::test_a_running_leg_is_left_alone",
    ),
    lua(
        "again hand",
        "parts/deciding_again.lua",
        "if not L or (L.h or '0') ~= d.h then return false end",
        "if not L then return false end",
        "route_again::test_a_wrong_hand_is_silence",
    ),
    lua(
        "seen",
        "parts/deciding_again.lua",
        "if L.st ~= d.s or (L.n or 0) ~= d.n then return {'changed'} end",
        "if (L.n or 0) ~= d.n then return {'changed'} end",
        "route_again::test_a_decision_for_what_is_no_longer_so_changes_nothing",
    ),
    lua(
        "seen, the attempt",
        "parts/deciding_again.lua",
        "if L.st ~= d.s or (L.n or 0) ~= d.n then return {'changed'} end",
        "if L.st ~= d.s then return {'changed'} end",
        "route_again::test_a_decision_for_what_is_no_longer_so_changes_nothing",
    ),
    lua(
        "not due",
        "parts/deciding_again.lua",
        "(L.st == 'waiting' and (L.u or 0) <= now)",
        "L.st == 'waiting'",
        "route_again::test_a_waiting_leg_does_not_go_before_its_time",
    ),
    lua(
        "fingerprint",
        "parts/duplicates.lua",
        "if H.fp ~= d.H.fp or H.s ~= d.H.s then",
        "if H.s ~= d.H.s then",
        "route_duplicates::test_another_fingerprint_is_a_conflict_that_shows_nothing",
    ),
    lua(
        "fingerprint, the sender",
        "parts/duplicates.lua",
        "if H.fp ~= d.H.fp or H.s ~= d.H.s then",
        "if H.fp ~= d.H.fp then",
        "route_duplicates::test_another_sender_is_a_conflict",
    ),
    lua(
        "fingerprint, in a round",
        "parts/duplicates.lua",
        " or H.fp ~= d.H.fp or H.s ~= d.H.s then return false end",
        " then return false end",
        "rounds::test_another_sender_or_content_cannot_re_open",
    ),
    lua(
        "boxes",
        "parts/duplicates.lua",
        "if #H.rt >= 4 then",
        "if #H.rt >= 400 then",
        "route_duplicates::test_the_fifth_caller_hears_overloaded",
    ),
    lua(
        "pcall",
        "parts/closing.lua",
        "redis.pcall('XADD', P .. 'mail:' .. box",
        "call('XADD', P .. 'mail:' .. box",
        "settle::test_a_broken_mailbox_leaves_the_receipt_in_the_ledger",
        raises="BackendError",
    ),
    lua(
        "pcall, of a decision",
        "route.lua",
        "local ok, v = pcall(steps[d.k], d, e)",
        "local ok, v = true, steps[d.k](d, e)",
        "route_send::test_a_decision_that_cannot_be_is_an_error_and_stays_pending",
        raises="ScriptFailed",
    ),
    lua(
        "pcall, its verdict",
        "route.lua",
        "v = {'error', type(v) == 'table' and v.err or tostring(v)}",
        "v = {'done', ''}",
        "route_send::test_a_decision_that_cannot_be_is_an_error_and_stays_pending",
    ),
    lua(
        "pcall, the verdict of XADD",
        "parts/placing.lua",
        "if type(id) ~= 'string' then",
        "if not id then",
        "hostile_ids::test_an_inbox_that_takes_no_more_ids_ends_the_leg_and_not_the_step",
        raises="AttributeError",
    ),
    lua(
        "pcall, of a message in due",
        "due.lua",
        "and not pcall(process, m, false) then",
        "and process(m, false) == nil then",
        "tests/lua/test_broken_records.py::test_a_broken_record_stops_no_step",
        raises="ScriptFailed",
    ),
    lua(
        "nomkstream",
        "parts/placing.lua",
        "inbox(r, agent), 'NOMKSTREAM', '*'",
        "inbox(r, agent), '*'",
        "broadcast::test_a_leg_whose_inbox_is_gone_ends_agent_lost",
    ),
    lua(
        "nomkstream, of a mailbox",
        "parts/closing.lua",
        "'mail:' .. box, 'NOMKSTREAM', 'MAXLEN'",
        "'mail:' .. box, 'MAXLEN'",
        "route_send::test_a_missing_mailbox_is_not_made_by_a_writer",
    ),
    lua(
        "window",
        "parts/record.lua",
        "math.max(h.ta, h.xa or 0, now) + math.min(math.max(2 * h.to, 60000), 600000)",
        "math.max(h.ta, now)",
        "route_send::test_the_record_lives_for_its_window_after_its_total",
    ),
    lua(
        "window, a minute at least",
        "parts/record.lua",
        "math.max(2 * h.to, 60000)",
        "2 * h.to",
        "route_send::test_the_window_is_at_least_a_minute",
    ),
    lua(
        "keep",
        "parts/giving_back.lua",
        "if not kept then keep(r, e) end",
        "",
        "route_again::test_a_returned_leg_is_delivered_again_with_a_new_hand",
    ),
    # ---------------------------------------------------------------- moves
    lua(
        "undelivered",
        "parts/deciding_again.lua",
        " and undelivered(r, L)",
        "",
        "route_again::test_what_was_read_meanwhile_does_not_move",
    ),
    lua(
        "move deletes",
        "parts/moving.lua",
        "drop(r, L)\n",
        "\n",
        "route_again::test_a_queued_leg_moves_to_another_agent",
    ),
    lua(
        "two moves",
        "parts/deciding_again.lua",
        "and (p.free or (L.mv or 0) < 2)",
        "",
        "route_again::test_it_moves_at_most_twice_in_an_attempt",
    ),
    lua(
        "two moves, left is forgotten with the attempt",
        "parts/giving_back.lua",
        "L.n, L.mv, L.lf, L.fr = (L.n or 0) + 1, nil, nil, nil",
        "L.n, L.mv, L.fr = (L.n or 0) + 1, nil, nil",
        "route_again::test_what_it_has_left_is_forgotten_with_the_attempt",
    ),
    lua(
        "two moves, a free one counts not",
        "parts/moving.lua",
        "if not p.free then L.mv = (L.mv or 0) + 1 end",
        "L.mv = (L.mv or 0) + 1",
        "route_again::test_a_free_move_neither_counts_nor_is_bounded_by_two",
    ),
    # ---------------------------------------------------------------- due
    lua(
        "reclaim",
        "parts/visiting.lua",
        "if idle >= 15000 or (over",
        "if (over",
        "due::test_a_silent_holder_loses_its_work_after_15_seconds",
    ),
    lua(
        "lease, in due",
        "parts/visiting.lua",
        "if idle >= 15000 or (over",
        "if idle >= 0 or (over",
        "due::test_a_renewed_lease_keeps_the_work",
    ),
    lua(
        "rearm",
        "parts/visiting.lua",
        "  again(r, l, L)\n",
        "  if not L.re then again(r, l, L) end\n",
        "due::test_it_is_asked_again_after_3_6_and_12_seconds",
    ),
    lua(
        "gone",
        "parts/visiting.lua",
        "if entry.err or #entry == 0 then",
        "if false then",
        "due::test_an_entry_that_vanished_comes_back_free",
    ),
    lua(
        "gone, what runs",
        "parts/visiting.lua",
        "if L.st == 'running' then -- and",
        "if false then -- and",
        "due::test_a_running_entry_that_is_no_longer_pending_has_a_lease_for_its_holder_to_renew",
    ),
    lua(
        "grace",
        "parts/ticking.lua",
        "local gap = not last or ahead or now - last > 3000",
        "local gap = not last or ahead",
        "due::test_a_pause_of_due_begins_a_new_grace",
    ),
    lua(
        "grace, the first tick",
        "parts/ticking.lua",
        "local gap = not last or ahead or now - last > 3000",
        "local gap = last and (ahead or now - last > 3000)",
        "due::test_a_missing_tick_begins_a_grace",
    ),
    lua(
        "grace, of a lease",
        "parts/visiting.lua",
        "\n  if now < grace_until then return grace_until end\n  -- Both",
        "\n  -- Both",
        "due::test_in_the_grace_no_lease_ends",
    ),
    lua(
        "grace, of a move",
        "parts/visiting.lua",
        "return now + LEASE_MS\n    end\n    if now < grace_until then return grace_until end",
        "return now + LEASE_MS\n    end",
        "due::test_in_the_grace_nothing_moves",
    ),
    lua(
        "first",
        "due.lua",
        "ticked()\nlocal ids",
        "ticked() grace_until = grace_until == now + 15000 and 0 or grace_until\nlocal ids",
        "due::test_a_pause_of_due_begins_a_new_grace",
    ),
    lua(
        "pause",
        "parts/ticking.lua",
        "if gap and (not last or ahead or now - last > 5000 or now - start >= 30000 or start > now) then",
        "if gap then",
        "slow_routers::test_where_routers_are_always_slow_a_dead_holder_still_loses_its_work",
    ),
    lua(
        "future",
        "parts/ticking.lua",
        "grace_until = math.min(number(t[2]) or 0, now + 15000)\n  local gap = not last or ahead or",
        "grace_until = number(t[2]) or 0\n  local gap = not last or",
        "due::test_a_tick_in_the_future_begins_a_grace",
    ),
    lua(
        "near",
        "parts/ticking.lua",
        "local left = (ahead or t[4]) and lowered()",
        "local left = false",
        "clock_steps::test_a_dead_holder_loses_its_work_no_later_for_it",
    ),
    lua(
        "near, so many at once",
        "parts/ticking.lua",
        "if left then call('HSET', key, 'back', now) elseif",
        "if",
        "clock_steps::test_one_call_lowers_so_many_moments_and_no_more",
    ),
    lua(
        "near, also in the record",
        "due.lua",
        " or (at > now + LEASE_MS and holder_of(r, L))",
        "",
        "clock_steps::test_a_leg_of_a_broadcast_is_looked_at_although_another_one_is_due_first",
    ),
    lua(
        "stamp",
        "parts/visiting.lua",
        "  restamp(inbox(r, L.a), 'agent', holder)\n",
        "",
        "clock_steps::test_a_dead_holder_loses_its_work_no_later_for_it",
    ),
    lua(
        "stamp, at the doors",
        "parts/ticking.lua",
        "  if ahead then restamp_doors() end\n",
        "",
        "clock_steps::test_what_a_dead_router_had_read_is_claimed_no_later_for_it",
    ),
    lua(
        "stamp, of a sign of life",
        "parts/visiting.lua",
        "if (L.al or L.tk) > now then",
        "if false then",
        "clock_steps::test_no_sign_of_life_ends_the_run_no_later_for_it",
    ),
    lua(
        "caller",
        "due.lua",
        "local at = process(ARGV[1], true)",
        "local at = process(ARGV[1], false)",
        "due::test_a_caller_writes_no_tick_and_takes_nobodys_work",
    ),
    lua(
        "caller, the tick",
        "due.lua",
        "if ARGV[1] ~= '' then\n",
        "if ARGV[1] ~= '' then ticked()\n",
        "due::test_a_caller_writes_no_tick_and_takes_nobodys_work",
    ),
    lua(
        "callers due",
        "due.lua",
        "if overdue(r, l, L) then at, changed = nil, true end",
        "",
        "due::test_a_caller_ends_its_own_message",
    ),
)
