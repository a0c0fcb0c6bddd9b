"""fresh_eyes: somebody who has not met this source yet, else who has not met this conversation; among them by score.

A second try, or the same question once more, comes to somebody who looks at it anew. Where everybody has met it, the score decides.
"""

from collections.abc import Collection, Sequence
from random import Random

from reach.routing.agents import Agent
from reach.routing.filters import View
from reach.routing.message import Message
from reach.routing.strategies import score
from reach.routing.strategies.port import Memory, Picked


def select(candidates: Sequence[Agent], message: Message, view: View, memory: Memory, rng: Random) -> Picked:
    """One of the freshest."""
    known = memory.meetings.of(message.name or message.source, message.conversation, view.now_ms)
    among, passed = _without(candidates, known.conversation, "has met this conversation")
    among, others = _without(among, known.source, "has met this source")
    picked = score.select(among, message, view, memory, rng)
    if len(among) == len(candidates):
        return picked
    return Picked(picked.chosen, aside={**passed, **others, **picked.aside})


def _without(candidates: Sequence[Agent], met: Collection[str], reason: str) -> tuple[Sequence[Agent], dict[str, str]]:
    """Those who are not among them, and why the others are passed over; all, where nobody is left."""
    fresh = [agent for agent in candidates if agent.agent_id not in met]
    if not fresh or len(fresh) == len(candidates):
        return candidates, {}
    return fresh, {agent.agent_id: reason for agent in candidates if agent.agent_id in met}
