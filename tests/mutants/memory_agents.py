"""Mutants of the memory backend's side of agents, of cancel and of rounds."""

from tests.mutants.memory_routers import memory

MUTANTS = (
    # ---------------------------------------------------------------- settle
    memory("hand", "settling", "if leg.hand != settlement.hand or leg.agent != agent:", "if leg.agent != agent:"),
    memory("hand, of progress", "settling", "or leg.hand != hand or leg.state", "or leg.state"),
    memory(
        "hand, at closing",
        "inboxes",
        "(leg.hand, leg.agent, record.head.lane) == (hand, agent, lane)",
        "(leg.agent, record.head.lane) == (agent, lane)",
    ),
    memory(
        "hand, at closing and its inbox",
        "inboxes",
        "(leg.hand, leg.agent, record.head.lane) == (hand, agent, lane)",
        "leg.hand == hand",
    ),
    memory(
        "instance",
        "settling",
        "same_instance = not settlement.instance or settlement.instance == leg.instance",
        "same_instance = True",
    ),
    memory("settle late", "settling", "if part.now_ms >= ends_at_ms(record.head, leg):", "if part.now_ms < 0:"),
    memory("repeat", "settling", 'return "done" if leg.settled and same_instance else "stale"', 'return "stale"'),
    memory(
        "repeat, of others", "settling", 'return "done" if leg.settled and same_instance else "stale"', 'return "done"'
    ),
    # ---------------------------------------------------------------- an answer that is not sure enough
    memory(
        "best",
        "closing",
        "if best is not None and state is not LegState.CANCELLED and",
        "if best is not None and sure >= 0 and state is not LegState.CANCELLED and",
    ),
    memory("best, kept by nobody", "settling", "may_ask = leg.best is None and", "may_ask = leg.best is not None and"),
    memory("best, no dead letter", "placing", "if plan.dead and record.legs[number].best is None:", "if plan.dead:"),
    memory("best, no dead letter half way", "rescuing", "if record.legs[number].by_agent:", "if not message:"),
    memory(
        "best, its agent",
        "closing",
        "by_agent=best.agent, by_instance=best.instance, duration_ms",
        "duration_ms",
    ),
    memory(
        "best, told as an answer",
        "due",
        '            self._note(msg_id, record, number, "answered", leg.code)\n        return bool(leg.by_agent)',
        "            pass\n        return False",
    ),
    memory("best, of a broadcast", "settling", 'record.head.scope == "one" and part', "part"),
    memory("cancelled best", "closing", "and state is not LegState.CANCELLED and sure", "and sure"),
    memory("better", "closing", "and sure < best.confidence:", "and sure < 0:"),
    memory("better, and not the first", "closing", "and sure < best.confidence:", "and sure <= 1:"),
    memory(
        "better, without a scan",
        "answering",
        "if _is_canonical(answer.status, answer.code, core) else None",
        "if not core else None",
    ),
    memory(
        "better, by a number",
        "answering",
        "json.loads(text[start:end], parse_int=float,",
        "json.loads(text[start:end], parse_int=lambda text: float(int(text)),",
        raises="OverflowError",
    ),
    memory(
        "second",
        "closing",
        "if record.legs[number].best is not None and (",
        "if record.legs[number].best is not None and burn is None and (",
    ),
    memory(
        "second, whose entry is nobodys",
        "closing",
        ".best is not None and (burn or record.legs[number].state is LegState.RUNNING):",
        ".best is not None and burn:",
    ),
    memory(
        "second, not what nobody took",
        "closing",
        ".best is not None and (burn or record.legs[number].state is LegState.RUNNING):",
        ".best is not None:",
    ),
    memory("second, of an unsure one", "settling", "may_ask = leg.best is None and", "may_ask ="),
    # ---------------------------------------------------------------- take
    memory(
        "take",
        "taking",
        "        named\n        and leg is not None\n        and (leg.state",
        "        leg is not None\n        or named\n        and (leg.state",
    ),
    memory(
        "take, its hand",
        "taking",
        "(leg.hand, leg.agent, record.head.lane) == (hand, agent, lane)",
        "(leg.agent, record.head.lane) == (agent, lane)",
    ),
    memory(
        "take, its inbox",
        "taking",
        "(leg.hand, leg.agent, record.head.lane) == (hand, agent, lane)",
        "leg.hand == hand",
    ),
    memory(
        "take, what runs already",
        "taking",
        "(resumed and leg.state == LegState.RUNNING and leg.instance == instance)",
        "(resumed and leg.state == LegState.RUNNING)",
    ),
    memory("leave", "taking", "leg.state == LegState.RUNNING and leg.instance and not resumed:", "not lane:"),
    memory(
        "take late",
        "taking",
        "too_late = part.now_ms >= ends_ms or (not leg.handed and part.now_ms >= head.first_at_ms)",
        "too_late = False",
    ),
    memory("take late, the total", "taking", "too_late = part.now_ms >= ends_ms or", "too_late ="),
    memory("resume", "taking", "    if held is not None:\n", "    if held is not None and turn < 0:\n"),
    memory(
        "resume, only its own",
        "taking",
        "group.held_by(self.instance)",
        "[(h, group.stream.get(h)) for h, _ in group.all_pending()]",
    ),
    memory("held", "taking", "if (lane, hand) in held or fields is None:", "if fields is None:"),
    memory(
        "renewer",
        "settling",
        "if row is not None and row.consumer == instance]",
        "if row is not None]",
    ),
    memory("lease", "inboxes", "row.idle_ms(part.now_ms) >= LEASE_MS]", "row.idle_ms(part.now_ms) >= 0]"),
    # ---------------------------------------------------------------- cancel
    memory(
        "tombstone",
        "cancel",
        "    part.store.put(key, MessageRecord(head, {}))\n    part.store.expire_at(key, until_ms)\n",
        "",
    ),
    memory("tombstone, met by the send", "route", "cancelled = head.round <= stopped", "cancelled = head.round < 0"),
    memory("tomb sender", "route", "tombstones.get(head.sender, 0) if", "max(tombstones.values(), default=0) if"),
    memory("tomb sender, nobody takes it away", "cancel", "tombstones={**known, sender:", "tombstones={sender:"),
    memory("tomb round", "route", "cancelled = head.round <= stopped", "cancelled = bool(stopped)"),
    memory("cancel round", "cancel", "if head.round > round_:", "if head.round < 0:"),
    memory("sender", "cancel", "if head.sender != sender:", "if not head.sender:"),
    memory("cancel ahead", "cancel", "ahead = round_ > head.round and any(", "ahead = round_ < 0 and any("),
    memory("cancel ahead, met by the send", "route", "if old is None else old.head.stopped", "if old is None else 0"),
    # ---------------------------------------------------------------- rounds
    memory(
        "greater",
        "duplicates",
        "decision.head.round > record.head.round\n        and",
        "record.head.round\n        and",
    ),
    memory("greater, of what goes on", "duplicates", "        and record.head.open <= 0\n", ""),
    memory(
        "retryable",
        "duplicates",
        "        and any(map(_ended_retryable, record.legs.values()))\n",
        "",
    ),
    memory("retryable, of a broadcast", "duplicates", "        if _opens(leg):\n", "        if leg:\n"),
    memory(
        "fresh",
        "route",
        'hand = "0" if old is None else f"0-{head.round}"\n',
        'hand = "0" if old is None else old.legs[0].hand\n',
    ),
)
