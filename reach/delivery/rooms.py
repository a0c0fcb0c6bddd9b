"""Who has no room for a message now, and is waited for: the hand-overs that may find some. Pure."""

from collections.abc import Mapping

import msgspec

from reach.backend.steps import Again, Decision, Plan, RouteResult, Send
from reach.delivery.planning import plan_of
from reach.envelope.ledger import Leg
from reach.envelope.registration import RoutePolicy
from reach.routing.index import CapabilityIndex
from reach.routing.steps import Choice, Deliver

#: A leg waits for so many agents at most: each place in a queue is a member of a sorted set, and asked once more when it looks again.
MAX_ROOMS = 16
#: The bounds of an agent that a hand-over may meet, as `route` names them; "" is the room of its inbox.
_OF_AN_AGENT = frozenset({"", "share", "agent"})


def refused_by(decision: Decision | None, result: RouteResult) -> dict[str, Plan]:
    """The hand-overs of a decision that found no room, by agent."""
    if result.verdict != "full" or result.known not in _OF_AN_AGENT:
        return {}
    plans = decision.plans if isinstance(decision, Send) else (decision.plan,) if isinstance(decision, Again) else ()
    return {plan.agent: plan for plan in plans if plan.act == "deliver"}


def not_asked(
    choice: Choice | None, leg: Leg | None, index: CapabilityIndex, policy: RoutePolicy, now_ms: int
) -> dict[str, Plan]:
    """The hand-overs to those who fitted as well as the chosen one, as far as the choice tells them."""
    step = choice.steps[0] if choice is not None else None
    if choice is None or not isinstance(step, Deliver):
        return {}
    others = [seen.agent for seen in choice.why.candidates if not seen.filter]
    return {agent: plan_of(Deliver(agent, step.via), leg, index, policy, now_ms) for agent in (step.agent, *others)}


def waiting_for(decision: Decision | None, rooms: Mapping[str, Plan]) -> Decision | None:
    """The decision whose wait ends as soon as one of these finds room. The leg of a broadcast waits for its own agent only."""
    if isinstance(decision, Again):
        plan = _waiting(decision.plan, rooms)
        return decision if plan is decision.plan else msgspec.structs.replace(decision, plan=plan)
    if not isinstance(decision, Send) or decision.head.scope == "all":
        return decision
    return msgspec.structs.replace(decision, plans=tuple(_waiting(plan, rooms) for plan in decision.plans))


def _waiting(plan: Plan, rooms: Mapping[str, Plan]) -> Plan:
    found = tuple(each for agent, each in rooms.items() if plan.agent in {"", agent})[:MAX_ROOMS]
    return msgspec.structs.replace(plan, rooms=found) if plan.act == "delay" and found else plan
