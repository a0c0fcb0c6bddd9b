"""tiered: the policy's tiers have exact shares of the messages; within a tier, the one with the best score is drawn.

`tiers` names them in the order in which they stand in for one another, `weights` gives each its share (alike where it gives none). A
message that needs a tier goes there. Where nobody of the tier fits, the next one of the list that has somebody takes it.

Without `tiers` those count that anybody who fits is of, in the order of their names; who is of none is a tier of its own, the last.
"""

from collections.abc import Sequence
from random import Random

from reach.routing.agents import Agent
from reach.routing.filters import View
from reach.routing.message import Message
from reach.routing.strategies import score
from reach.routing.strategies.port import Memory, Picked


def select(candidates: Sequence[Agent], message: Message, view: View, memory: Memory, rng: Random) -> Picked:
    """One of the tier whose turn it is."""
    by_tier: dict[str, list[Agent]] = {}
    for agent in candidates:
        by_tier.setdefault(agent.tier, []).append(agent)
    there = sorted(by_tier, key=lambda tier: (not tier, tier))
    tiers = [str(tier) for tier in view.policy.tiers] or there
    wanted = _turn(message, tiers, view, memory)
    start = tiers.index(wanted) if wanted in tiers else 0
    order = [wanted, *tiers[start:], *tiers[:start], *there]
    among = next(by_tier[tier] for tier in order if tier in by_tier)
    picked = score.select(among, message, view, memory, rng)
    return Picked(picked.chosen, aside=picked.aside)


def _turn(message: Message, tiers: Sequence[str], view: View, memory: Memory) -> str:
    if message.tier is not None:
        return message.tier
    shares = {tier: view.policy.weights.get(tier, 1.0) for tier in tiers}
    return memory.next_of(f"tiers {message.pattern.text}", shares)
