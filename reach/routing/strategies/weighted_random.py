"""weighted_random: drawn in proportion to the weight that each declares (the policy's own weights win); busy ones with a fifth of it."""

from collections.abc import Sequence
from itertools import accumulate
from random import Random

from reach.routing.agents import BUSY_SHARE, Agent
from reach.routing.filters import View
from reach.routing.message import Message
from reach.routing.strategies.port import Memory


def select(candidates: Sequence[Agent], message: Message, view: View, memory: Memory, rng: Random) -> Sequence[Agent]:  # noqa: ARG001
    """One, by chance. Where nobody has any weight, all are alike."""
    if len(candidates) == 1:
        return candidates
    edges = list(accumulate(weight(agent, view) for agent in candidates))
    if edges[-1] <= 0:
        return [candidates[int(rng.random() * len(candidates))]]
    point = rng.random() * edges[-1]
    return [next(agent for agent, edge in zip(candidates, edges, strict=True) if point < edge)]


def weight(agent: Agent, view: View) -> float:
    """The share of one agent, never negative."""
    own = max(view.policy.weights.get(agent.agent_id, agent.declared.weight), 0.0)
    return own * BUSY_SHARE if agent.state(view.alive_since_ms) == "busy" else own
