"""weighted_random: drawn in proportion to the weight that each declares (the policy's own weights win); busy ones with a fifth of it."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate
from random import Random

from reach.envelope.registration import MAX_AMOUNT, Beat
from reach.routing.agents import BUSY_SHARE, Agent
from reach.routing.filters import View
from reach.routing.message import Message
from reach.routing.strategies.port import Memory, Picked
from reach.routing.strategies.weighing import Usual, Weighing, Weight


def select(candidates: Sequence[Agent], message: Message, view: View, memory: Memory, rng: Random) -> Picked:  # noqa: ARG001
    """One, by chance."""
    weights = [weight(agent, view) for agent in candidates]
    return Picked([draw(candidates, weights, rng)], weights)


def draw(candidates: Sequence[Agent], weights: Sequence[float], rng: Random) -> Agent:
    """One of them, in proportion to its weight. Where nobody has any, all are alike."""
    if len(candidates) == 1:
        return candidates[0]
    edges = list(accumulate(weights))
    if edges[-1] <= 0:
        return candidates[int(rng.random() * len(candidates))]
    drawn = bisect_right(edges, rng.random() * edges[-1])
    # Rounding may put the point on the very end: that is the last one with any weight.
    return candidates[min(drawn, bisect_left(edges, edges[-1]))]


def weight(agent: Agent, view: View) -> float:
    """The share of one agent in a draw: a busy one has a fifth of it."""
    own = declared_weight(agent, view)
    return own * BUSY_SHARE if agent.state(view.alive_since_ms) == "busy" else own


def declared_weight(agent: Agent, view: View) -> float:
    """What it or the policy says, 0 to 1e6 whatever is stored: a sum that is not finite would bring down every router."""
    own = view.policy.weights.get(agent.agent_id, agent.declared.weight)
    return min(own, MAX_AMOUNT) if own > 0 else 0.0


# ---------------------------------------------------------------- one of many, by itself
def _most(working: Sequence[Beat]) -> float:
    return 1.0 if any(beat.state == "ready" for beat in working) else BUSY_SHARE


def _now(agent: Agent, view: View, _: Memory, __: Usual) -> Weight:
    return Weight(weight(agent, view))


WEIGHING = Weighing(_most, _now, most_of_usual=lambda _: 1.0, chosen=lambda _agent, _view, _memory: None)
