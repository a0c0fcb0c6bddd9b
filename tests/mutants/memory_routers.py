"""Mutants of the memory backend's side of routers: the same guards as in the Lua steps, caught by the same tests."""

from tests.mutants import lua_agents, lua_routers
from tests.mutants.mutant import Mutant

_TESTS = {mutant.name.partition(":")[2]: mutant.test for mutant in (*lua_routers.MUTANTS, *lua_agents.MUTANTS)}


def memory(name: str, file: str, old: str, new: str, test: str = "", *, raises: str = "") -> Mutant:
    """`test`: below tests/contract, without `test_`; "" = the one that catches the mutant of this name in Lua."""
    node = lua_routers.node_id(test) if test else _TESTS[name]
    guard = name.partition(",")[0]
    return Mutant(f"memory:{name}", guard, f"reach/backend/memory_backend/{file}.py", old, new, node, raises)


MUTANTS = (
    # ---------------------------------------------------------------- the doors
    memory(
        "xack",
        "partition",
        "self.acknowledged = group is not None and group.ack(entry_id)",
        "self.acknowledged = group is None or group.ack(entry_id) or True",
    ),
    memory(
        "xack, of a duplicate",
        "route",
        '            return SKIPPED\n        return RouteResult("done", known=attach',
        '            pass\n        return RouteResult("done", known=attach',
    ),
    memory(
        "xack, of an again",
        "route",
        "        return SKIPPED\n    risen = raise_timeouts",
        "        pass\n    risen = raise_timeouts",
    ),
    memory(
        "xack, of a refusal",
        "route",
        "        return SKIPPED\n    if decision.dead:",
        "        pass\n    if decision.dead:",
    ),
    memory(
        "quiet",
        "route",
        '        return _acknowledged(part, decision, "silent")',
        "        for mailbox in record.head.mailboxes if record is not None else ():\n"
        "            post_stored(part, record, mailbox)\n"
        '        return _acknowledged(part, decision, "silent")',
    ),
    memory(
        "quiet, of a leg that runs",
        "route",
        "return leg.state in {LegState.RETURNED,",
        "return leg.state in {LegState.RUNNING, LegState.RETURNED,",
    ),
    memory("again hand", "route", "    if leg.hand != decision.hand:\n", "    if leg is None:\n"),
    memory("seen", "route", "leg.state != decision.state or leg.attempt", "leg.attempt"),
    memory("seen, the attempt", "route", " or leg.attempt != decision.attempt:", ":"),
    memory(
        "not due",
        "route",
        "leg.state == LegState.WAITING and leg.until_ms <= part.now_ms",
        "leg.state == LegState.WAITING",
    ),
    memory(
        "fingerprint",
        "duplicates",
        "(record.head.fingerprint, record.head.sender) == (head.fingerprint, head.sender)",
        "record.head.sender == head.sender",
    ),
    memory(
        "fingerprint, the sender",
        "duplicates",
        "(record.head.fingerprint, record.head.sender) == (head.fingerprint, head.sender)",
        "record.head.fingerprint == head.fingerprint",
    ),
    memory("fingerprint, in a round", "duplicates", "        and _same(record, decision)\n", ""),
    memory("boxes", "duplicates", "MAX_CALLERS = 4", "MAX_CALLERS = 400"),
    memory("pcall", "partition", "except (WrongType, BadId):", "except BadId:", raises="WrongType"),
    memory(
        "pcall, of a decision",
        "route",
        "except BackendError as error:",
        "except ArithmeticError as error:",
        raises="BackendError",
    ),
    memory(
        "pcall, the verdict of XADD",
        "partition",
        "        except BadId:\n            return None",
        "        except ArithmeticError:\n            return None",
        raises="BadId",
    ),
    memory(
        "nomkstream",
        "partition",
        "        if self.inbox(agent, lane) is None:\n            return None\n",
        "        self.store.make_stream(self.keys.inbox(self.number, agent, lane))\n",
    ),
    memory(
        "nomkstream, of a mailbox",
        "partition",
        "make=False, mend=False, max_entries=MAX_MAIL",
        "mend=False, max_entries=MAX_MAIL",
    ),
    memory(
        "window",
        "partition",
        "max(head.total_at_ms, head.latest_at_ms, self.now_ms) + window_ms",
        "max(head.total_at_ms, self.now_ms)",
    ),
    memory("window, a minute at least", "partition", "max(2 * head.total_ms, 60_000)", "2 * head.total_ms"),
    memory(
        "keep",
        "closing",
        "    if part.kept_envelope(msg_id) is None:\n        part.keep_envelope(msg_id, record.head, envelope)\n",
        "",
    ),
    # ---------------------------------------------------------------- moves
    memory("undelivered", "route", " or not undelivered(part, record, decision.leg):", ":"),
    memory(
        "move deletes",
        "moving",
        "    part.discard(leg.agent, record.head.lane, leg.hand)\n",
        "",
    ),
    memory(
        "new hand",
        "route",
        "    placed = place(part, msg_id, record, number, plan, envelope)\n",
        "    placed = place(part, msg_id, record, number, plan, envelope)\n"
        '    if decision.plan.act == "move":\n'
        "        record.change(number, hand=decision.hand)\n",
    ),
    memory("two moves", "route", " and (plan.free or leg.moves < MAX_MOVES)", ""),
    # ---------------------------------------------------------------- due
    memory("reclaim", "due", "if idle_ms >= LEASE_MS or (over", "if (over"),
    memory("lease, in due", "due", "if idle_ms >= LEASE_MS or (over", "if idle_ms >= 0 or (over"),
    memory(
        "rearm",
        "due",
        "        if may_ask:\n",
        "        if may_ask and not leg.rearm:\n",
    ),
    memory(
        "gone",
        "due",
        "if part.inbox_entry(record, number) is None:",
        "if False:",
    ),
    memory(
        "gone, what runs",
        "due",
        "if leg.state == LegState.RUNNING:  # and",
        "if False:  # and",
    ),
    memory("grace", "ticking", "if missing_or_future or now_ms - last_ms > 3_000:", "if missing_or_future:"),
    memory(
        "grace, of a lease",
        "due",
        "        if now_ms < self.grace_until_ms:\n            return self.grace_until_ms\n",
        "",
    ),
    memory(
        "grace, of a move",
        "due",
        "            if part.now_ms < self.grace_until_ms:\n                return self.grace_until_ms\n",
        "",
    ),
    memory(
        "first",
        "due",
        "round_ = _Round(part, grace_until_ms=ticked.grace_until_ms)",
        "round_ = _Round(part, grace_until_ms=0)",
    ),
    memory(
        "pause",
        "ticking",
        "if long_gap or now_ms - start_ms >= 30_000 or start_ms > now_ms:",
        "if long_gap or start_ms:",
    ),
    memory(
        "future",
        "ticking",
        "missing_or_future = last_ms < 0 or ahead\n    grace_until_ms = min(max(until_ms, 0), now_ms + GRACE_MS)",
        "missing_or_future = last_ms < 0\n    grace_until_ms = max(until_ms, 0)",
    ),
    memory("near", "ticking", 'left = (ahead or "back" in stored) and _lowered(part)', "left = False"),
    memory("near, so many at once", "ticking", '        stored["back"] = str(now_ms).encode()\n', "        pass\n"),
    memory(
        "near, also in the record",
        "due",
        " or (wait_ms > LEASE_MS and self._pending(record, number) is not None)",
        "",
    ),
    memory("stamp", "due", "        restamp(pending, now_ms)\n", ""),
    memory("stamp, at the doors", "ticking", "    if ahead:\n        _restamp_doors(part)\n", ""),
    memory(
        "stamp, of a sign of life",
        "due",
        "if (leg.alive_at_ms or leg.taken_at_ms) > now_ms:",
        "if leg.alive_at_ms < 0:",
    ),
    memory("caller", "due", "round_.look(msg_id, callers=True)", "round_.look(msg_id, callers=False)"),
    memory(
        "caller, the tick",
        "due",
        "    if msg_id:\n",
        "    if msg_id:\n        tick(part)\n",
    ),
    memory(
        "callers due",
        "due",
        "if self._overdue(msg_id, record, number):\n                    at_ms",
        "if record.head.open < 0:\n                    at_ms",
    ),
)
