"""direct: the one that is named. Where several fit, the first by agent_id: the same for every router and every message."""

from collections.abc import Sequence
from random import Random

from reach.routing.agents import Agent
from reach.routing.filters import View
from reach.routing.message import Message
from reach.routing.strategies.port import Memory, Picked


def select(candidates: Sequence[Agent], message: Message, view: View, memory: Memory, rng: Random) -> Picked:  # noqa: ARG001
    """The first."""
    return Picked(candidates[:1])
