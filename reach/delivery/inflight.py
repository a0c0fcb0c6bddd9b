"""How many messages may be open: the bounds of `meta`, and what a sender is told over them. Pure."""

from collections.abc import Callable

import msgspec

from reach.backend.steps import Again, Decision, Plan, Refuse, RouteResult, Send
from reach.delivery.answers import refusal
from reach.delivery.judge import Case
from reach.errors import EnvelopeError

#: When to come back: work that is under way ends all the time.
COME_BACK_MS = 1_000
_SETTINGS = {"env": "max_inflight", "sender": "max_inflight_per_sender"}


def bounded(decision: Decision, setting: Callable[[str, int], int], partitions: int) -> Decision:
    """The decision with what may be open, as `meta` says now: each partition has its part, rounded up."""
    per_agent = _part(setting("max_inflight_per_agent", 0), partitions)
    if isinstance(decision, Again):
        return msgspec.structs.replace(decision, plan=_plan(decision.plan, per_agent)) if per_agent else decision
    if isinstance(decision, Refuse):
        return decision
    most, mine = (_part(setting(name, 0), partitions) for name in _SETTINGS.values())
    if not (most or mine or per_agent):
        return decision
    plans = tuple(_plan(plan, per_agent) for plan in decision.plans)
    return msgspec.structs.replace(decision, plans=plans, max_open=most, max_open_sender=mine)


def turned_away(case: Case, result: RouteResult, *, at_ms: int, durability: str) -> bool:
    """Whether so many are open that this one is refused: its decision is the refusal then. Nothing of it has been written."""
    name, envelope = _SETTINGS.get(result.known), case.envelope
    if result.verdict != "full" or name is None or envelope is None or not isinstance(case.decision, Send):
        return False
    whose = "in this env" if result.known == "env" else f"of {case.decision.head.sender}"
    case.refused = error = EnvelopeError(
        "overloaded",
        f"as many messages {whose} are open as {name} allows",
        details={"bound": name},
        reply_to=envelope.reply_to,
        msg_id=envelope.msg_id,
        correlation_id=envelope.conversation,
        task_id=envelope.task,
        source=envelope.source.agent_id,
    )
    receipt = refusal(error, at_ms=at_ms, durability=durability, retry_after_ms=COME_BACK_MS)
    mailbox = envelope.reply_to or ""
    case.decision = Refuse(case.entry, mailbox=mailbox, receipt=receipt if mailbox else b"")
    return True


def _part(most: int, partitions: int) -> int:
    return -(-most // max(partitions, 1))


def _plan(plan: Plan, per_agent: int) -> Plan:
    return msgspec.structs.replace(plan, max_agent=per_agent)
