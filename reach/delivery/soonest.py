"""What a decision plans, leg by leg, and when something of it is due next. Pure."""

from collections.abc import Sequence

from reach.backend.steps import Again, Decision, Plan, Send

SOON_MS = 1_000


def plans_of(decision: Decision | None) -> Sequence[Plan]:
    """Of a send in the order of its legs; of an again that of its leg, then those of the others that go on with it."""
    if isinstance(decision, Send):
        return decision.plans
    return (decision.plan, *decision.others.values()) if isinstance(decision, Again) else ()


def soonest_ms(decision: Decision | None) -> int:
    """In how many ms the earliest thing is due that a decision has set up; a second or more: nobody needs to be told."""
    waits = [plan.wait_ms for plan in plans_of(decision) if plan.act == "delay"]
    if not isinstance(decision, Send):
        return min(waits, default=SOON_MS)
    return min(decision.head.ttl_ms, decision.head.network_ms, decision.head.total_ms, *waits)
