"""A step of a decision in the form that `route` carries out: with the bounds of the inbox that it goes to. Pure."""

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
        most, slots = _bounds(step.agent, index, policy, now_ms)
        return Plan("observe", agent=step.agent, max_inbox=most, max_agent=slots)
    if isinstance(step, Deliver | Move):
        most, slots = _bounds(step.agent, index, index.policy(step.via) if step.via else policy, now_ms)
        via = FALLBACK if step.via else ""
        if isinstance(step, Move):
            return Plan(
                "move", agent=step.agent, max_inbox=most, free=step.free, room=step.room, max_agent=slots, via=via
            )
        return Plan("deliver", agent=step.agent, max_inbox=most, max_agent=slots, via=via)
    if isinstance(step, Delay):
        return Plan("delay", agent=step.agent, wait_ms=step.wait_ms)
    if isinstance(step, Finish):
        return Plan("finish", agent=step.agent, answer=_ending(step, leg), dead=step.dead)
    if isinstance(step, Hold):
        return Plan("hold", agent=step.agent)
    return Plan("stay")


def _bounds(agent_id: str, index: CapabilityIndex, policy: RoutePolicy, now_ms: int) -> tuple[int, int]:
    """How much may lie in a lane of an inbox that nobody has taken yet, and how much with its agent in all (0 = any number).

    What runs does not count. A bound of 0 is as 1, and only while the agent has a free slot: so a greater one never admits less.
    """
    if policy.max_inbox == 0:
        return 1, _slots(index, agent_id, now_ms)
    return policy.max_inbox if policy.max_inbox is not None else index.setting("max_inbox", MAX_INBOX), 0


def _slots(index: CapabilityIndex, agent_id: str, now_ms: int) -> int:
    """How much its live instances run at once."""
    agent = index.agents.get(agent_id)
    return agent.history(index.alive_since_ms(now_ms)).slots if agent is not None else 1


def _ending(step: Finish, leg: Leg | None) -> Answer:
    if step.last and leg is not None:
        return kept_answer(leg)
    return code_answer(step.code, step.message, step.details, retry_after_ms=step.retry_after_ms)
