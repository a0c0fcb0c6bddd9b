"""How many messages may be open: the bounds of `meta`, and what a sender is told over them. Pure."""

from collections.abc import Callable

import msgspec

from reach.backend.steps import Again, Decision, Plan, Refuse, RouteResult, Send
from reach.delivery.answers import addressed, code_answer
from reach.delivery.judge import Case
from reach.delivery.refusing import ended
from reach.errors import EnvelopeError

#: When to come back: work that is under way ends all the time.
COME_BACK_MS = 1_000
_SETTINGS = {"env": "max_inflight", "sender": "max_inflight_per_sender"}


def bounded(decision: Decision, setting: Callable[[str, int], int], partitions: int) -> Decision:
    """The decision with what may be open, as `meta` says now: each partition has its part, rounded up."""
    per_agent = _part(setting("max_inflight_per_agent", 0), partitions)
    if isinstance(decision, Again):
        others = {number: _plan(plan, per_agent) for number, plan in decision.others.items()}
        plan = _plan(decision.plan, per_agent)
        return msgspec.structs.replace(decision, plan=plan, others=others) if per_agent else decision
    if isinstance(decision, Refuse) or all(plan.act == "finish" for plan in decision.plans):
        return decision  # it is open for no moment
    most, mine = (_part(setting(name, 0), partitions) for name in _SETTINGS.values())
    if not (most or mine or per_agent):
        return decision
    plans = tuple(_plan(plan, per_agent) for plan in decision.plans)
    return msgspec.structs.replace(decision, plans=plans, max_open=most, max_open_sender=mine)


def turned_away(case: Case, result: RouteResult) -> bool:
    """Whether so many are open that this one is refused: its decision is its end then. Nothing of it has been written yet."""
    name, envelope, send = _SETTINGS.get(result.known), case.envelope, case.decision
    if result.verdict != "full" or name is None or envelope is None or not isinstance(send, Send):
        return False
    whose = "in this env" if result.known == "env" else f"of {send.head.sender}"
    text, details = f"as many messages {whose} are open as {name} allows", {"bound": name}
    case.refused = addressed(EnvelopeError("overloaded", text, details=details), envelope)
    case.decision = ended(send, code_answer("overloaded", text, dict(details), retry_after_ms=COME_BACK_MS))
    return True


def _part(most: int, partitions: int) -> int:
    return -(-most // max(partitions, 1))


def _plan(plan: Plan, per_agent: int) -> Plan:
    if not per_agent:
        return plan
    rooms = tuple(_plan(each, per_agent) for each in plan.rooms)
    return msgspec.structs.replace(plan, max_agent=min(per_agent, plan.max_agent or per_agent), rooms=rooms)
