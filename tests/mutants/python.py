"""Mutants of what lives in Python on both backends: router, judge, inbox, pulse, client."""

from tests.mutants.mutant import Mutant


def python(name: str, file: str, old: str, new: str, test: str) -> Mutant:
    """`file`: below reach, without .py; `test`: below tests."""
    return Mutant(f"python:{name}", name.partition(",")[0], f"reach/{file}.py", old, new, f"tests/{test}")


MUTANTS = (
    # ---------------------------------------------------------------- routers
    python(
        "claim",
        "delivery/router",
        "            done += await self._claim()\n",
        "",
        "unit/delivery/test_router.py::test_what_another_router_is_at_work_on_is_left_to_it_for_five_seconds",
    ),
    python(
        "claim, by its idle time",
        "delivery/router",
        "CLAIM_IDLE_MS = 5_000",
        "CLAIM_IDLE_MS = 0",
        "unit/delivery/test_router.py::test_what_another_router_is_at_work_on_is_left_to_it_for_five_seconds",
    ),
    python(
        "claim, by its idle time on a server",
        "backend/redis_backend/streams",
        "consumer, idle_ms, cursor,",
        "consumer, 0, cursor,",
        "contract/test_doors.py::test_idle_work_is_claimed_from_anyone",
    ),
    python(
        "claim, by its idle time in memory",
        "backend/memory_backend/streams",
        "if pending.idle_ms(now_ms) < idle_ms:",
        "if pending.idle_ms(now_ms) < 0:",
        "contract/test_doors.py::test_idle_work_is_claimed_from_anyone",
    ),
    python(
        "reread",
        "delivery/router",
        "if was_unfinished:",
        "if was_unfinished and was_surprised:",
        "unit/delivery/test_router.py::test_redis_away_leaves_all_pending_and_the_next_run_serves_it",
    ),
    python(
        "reread, at the start",
        "delivery/router",
        "self._unfinished = True  # a run",
        "self._unfinished = False  # a run",
        "integration/test_router.py::test_a_router_reads_its_own_pending_entries_first",
    ),
    python(
        "reread, all of it",
        "backend/redis_backend/streams",
        "            if len(entries) < page:\n                return found",
        "            if len(entries) <= page:\n                return found",
        "contract/test_doors.py::test_own_work_is_given_whole_however_much_it_is",
    ),
    python(
        "quiet",
        "delivery/judge",
        "or leg.state not in _ACTS:",
        "or leg.finished_at_ms:",
        "unit/delivery/test_router.py::test_a_reference_that_asks_for_nothing_brings_no_decision",
    ),
    python(
        "again hand",
        "delivery/judge",
        "if leg.hand != reference.hand or leg.state",
        "if leg.state",
        "unit/delivery/test_router.py::test_a_reference_that_asks_for_nothing_brings_no_decision",
    ),
    python(
        "not due",
        "delivery/judge",
        "if leg.state is LegState.WAITING and leg.until_ms > record.now_ms:",
        "if leg.until_ms < 0:",
        "unit/delivery/test_router.py::test_a_reference_that_asks_for_nothing_brings_no_decision",
    ),
    python(
        "two moves",
        "routing/decide",
        "if is_read and leg.moves >= MAX_MOVES:",
        "if leg.moves < 0:",
        "unit/routing/test_move.py::test_it_stays",
    ),
    python(
        "two moves, back to a dead one",
        "routing/decide",
        "not in {leg.agent, *leg.left}",
        "not in {leg.agent}",
        "unit/delivery/test_dead_holders.py::test_everything_is_answered_by_the_living",
    ),
    python(
        "two moves, from an inbox that nobody reads",
        "routing/decide",
        "if is_read and leg.moves >= MAX_MOVES:",
        "if leg.moves >= MAX_MOVES:",
        "unit/delivery/test_dead_holders.py::test_everything_is_answered_by_the_living",
    ),
    python(
        "another",
        "routing/decide",
        "else frozenset([best.agent] if best is not None else [])",
        "else frozenset()",
        "unit/routing/test_better.py::test_whoever_gave_the_best_answer_is_not_asked_for_a_better_one",
    ),
    python(
        "another, of a move",
        "routing/decide",
        "(agent for agent in others if agent.agent_id != best)",
        "others",
        "unit/routing/test_better.py::test_a_move_does_not_go_to_it_either",
    ),
    python(
        "best, of which nobody waits for more",
        "routing/decide",
        "if leg is not None and (elsewhere or best is not None):",
        "if leg is not None and elsewhere:",
        "unit/routing/test_better.py::test_whoever_gave_the_best_answer_is_not_asked_for_a_better_one",
    ),
    python(
        "best, in the records of a router",
        "delivery/trail",
        "if isinstance(step, Finish) and leg.best is not None:",
        "if isinstance(step, Finish) and leg.best is not None and not leg.best.agent:",
        "unit/sdk/test_confidence.py::test_what_ends_with_its_guess_is_told_as_an_answer",
    ),
    python(
        "best, in the records of due",
        "delivery/trail",
        '    "answered": "agent.completed",\n',
        "",
        "unit/sdk/test_confidence.py::test_what_ends_with_its_guess_is_told_as_an_answer",
    ),
    python(
        "best, in the status",
        "sdk/handle",
        "(leg.by_agent or leg.agent) or None",
        "leg.agent or None",
        "unit/sdk/test_confidence.py::test_what_ends_with_its_guess_is_told_as_an_answer",
    ),
    # ---------------------------------------------------------------- agents
    python(
        "resume",
        "delivery/inbox",
        "held = self._held_in(partition) if unsure else None",
        "held = None",
        "unit/delivery/test_inbox.py::test_work_whose_reply_was_lost_comes_again_and_only_that",
    ),
    python(
        "resume, after a lost reply",
        "delivery/inbox",
        "self._unsure.update(range(self._backend.partitions))",
        "self._unsure.update(())",
        "unit/delivery/test_inbox.py::test_work_whose_reply_was_lost_comes_again_and_only_that",
    ),
    python(
        "held",
        "delivery/inbox",
        "held = self._held_in(partition) if unsure else None",
        "held = [] if unsure else None",
        "unit/delivery/test_inbox.py::test_work_whose_reply_was_lost_comes_again_and_only_that",
    ),
    python(
        "repeat",
        "delivery/inbox",
        "            if error.retryable:\n                raise\n",
        '            if error.retryable:\n                return ["unknown"] * len(batch)\n',
        "unit/delivery/test_inbox.py::test_a_lost_reply_to_a_settle_is_asked_for_again",
    ),
    python(
        "lease",
        "delivery/pulse",
        "lost = await self._renew()",
        "lost = 0",
        "unit/delivery/test_pulse.py::test_what_is_held_is_renewed_every_five_seconds",
    ),
    python(
        "lease, lost by its holder",
        "delivery/pulse",
        "self._on_lost(Hold(partition, lane, hand))",
        "pass",
        "unit/delivery/test_pulse.py::test_the_same_id_in_two_lanes_is_two_entries",
    ),
    python(
        "adopt",
        "delivery/inbox",
        "if hold_of(taken) not in self._held]",
        "if hold_of(taken)]",
        "unit/delivery/test_inbox.py::test_what_a_server_gives_anew_and_is_held_is_not_taken_twice",
    ),
    # ---------------------------------------------------------------- callers
    python(
        "callers due",
        "sdk/exchange",
        "self.backend.due(pending.partition, pending.msg_id)",
        "self.backend.due(pending.partition, pending.msg_id + '?')",
        "unit/sdk/test_client_ends.py::test_without_any_router_the_caller_ends_what_nobody_has",
    ),
    python(
        "greater",
        "sdk/pending",
        "return head.round + 1 if retryable",
        "return head.round if retryable",
        "unit/sdk/test_rounds.py::test_what_ended_retryable_is_tried_anew_under_the_same_key",
    ),
    python(
        "fingerprint",
        "sdk/exchange",
        "known = {pending.known_as, *(other.fingerprint for other in others)}",
        "known = {pending.known_as}",
        "unit/sdk/test_client.py::test_the_same_key_twice_at_once_runs_once",
    ),
    python(
        "fingerprint, of what has ended",
        "sdk/exchange",
        "known = {pending.known_as, *(other.fingerprint for other in others)}",
        "known = {other.fingerprint for other in others}",
        "unit/sdk/test_client.py::test_a_late_receipt_of_the_same_key_is_no_answer_to_another_content",
    ),
)
