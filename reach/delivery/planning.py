"""A step of a decision in the form that `route` carries out: with the bounds of the inbox that it goes to. Pure."""

import msgspec

from reach.backend.steps import Answer, Plan
from reach.delivery.answers import code_answer, kept_answer
from reach.envelope.ledger import Leg
from reach.envelope.registration import RoutePolicy
from reach.routing.index import CapabilityIndex
from reach.routing.steps import Delay, Deliver, Finish, Hold, Move, Observe, Step

#: An inbox is full at so many entries, unless the policy of the pattern or `max_inbox` in meta says otherwise.
MAX_INBOX = 10_000
FALLBACK = "fallback"


def plan_of(step: Step, leg: Leg | None, index: CapabilityIndex, policy: RoutePolicy, now_ms: int) -> Plan:
    """What is to be done. `policy`: of the pattern of the message; what goes by a fallback is bounded by the policy of that."""
    if isinstance(step, Observe):
        return _bounded(Plan("observe", agent=step.agent), index, policy, now_ms)
    if isinstance(step, Deliver | Move):
        plan = Plan("deliver", agent=step.agent, via=FALLBACK if step.via else "")
        if isinstance(step, Move):
            plan = msgspec.structs.replace(plan, act="move", free=step.free, room=step.room)
        return _bounded(plan, index, index.policy(step.via) if step.via else policy, now_ms)
    if isinstance(step, Delay):
        return Plan("delay", agent=step.agent, wait_ms=step.wait_ms)
    if isinstance(step, Finish):
        return Plan("finish", agent=step.agent, answer=_ending(step, leg), dead=step.dead)
    if isinstance(step, Hold):
        return Plan("hold", agent=step.agent)
    return Plan("stay")


def _bounded(plan: Plan, index: CapabilityIndex, policy: RoutePolicy, now_ms: int) -> Plan:
    """With what may lie with its agent: so many in a lane of its inbox that nobody has taken yet; what runs does not count.

    0: as with 1, and only while the agent has a free slot. So a greater number never admits less than a smaller one.
    """
    if policy.max_inbox == 0:
        return msgspec.structs.replace(plan, max_inbox=1, max_agent=_slots(index, plan.agent, now_ms))
    most = policy.max_inbox if policy.max_inbox is not None else index.setting("max_inbox", MAX_INBOX)
    return msgspec.structs.replace(plan, max_inbox=most)


def _slots(index: CapabilityIndex, agent_id: str, now_ms: int) -> int:
    """How much its live instances run at once."""
    agent = index.agents.get(agent_id)
    return agent.history(index.alive_since_ms(now_ms)).slots if agent is not None else 1


def _ending(step: Finish, leg: Leg | None) -> Answer:
    if step.last and leg is not None:
        return kept_answer(leg)
    return code_answer(step.code, step.message, step.details, retry_after_ms=step.retry_after_ms)
