"""sticky: what belongs together goes to the same agent: by rendezvous hash of the order_key, else of the conversation.

Where one of n agents leaves, only what it had moves; where one comes, 1 of n + 1 moves to it. Every router chooses alike.
"""

import math
from collections.abc import Sequence
from hashlib import blake2b
from random import Random

from reach.routing.agents import Agent
from reach.routing.filters import View
from reach.routing.message import Message
from reach.routing.strategies.port import Memory, Picked
from reach.routing.strategies.weighted_random import declared_weight


def select(candidates: Sequence[Agent], message: Message, view: View, memory: Memory, rng: Random) -> Picked:  # noqa: ARG001
    """The one that wins for this key. An agent of twice the weight wins twice as many keys."""
    key = message.order_key or message.conversation
    claims = [_claim(key, agent.agent_id, declared_weight(agent, view)) for agent in candidates]
    return Picked([max(zip(claims, candidates, strict=True), key=lambda pair: (pair[0], pair[1].agent_id))[1]])


def _claim(key: str, agent_id: str, weight: float) -> float:
    """How strongly an agent claims a key: -weight / ln(u), where u is drawn from 0 to 1 by a hash of both."""
    digest = blake2b(f"{key}\0{agent_id}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    drawn = (int.from_bytes(digest) + 0.5) / 2**64
    return -weight / math.log(drawn) if drawn < 1 else math.inf
