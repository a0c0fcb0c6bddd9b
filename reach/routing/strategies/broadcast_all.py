"""broadcast_all: everybody who fits, each with a leg of its own."""

from collections.abc import Sequence
from random import Random

from reach.routing.agents import Agent
from reach.routing.filters import View
from reach.routing.message import Message
from reach.routing.strategies.port import Memory, Picked


def select(candidates: Sequence[Agent], message: Message, view: View, memory: Memory, rng: Random) -> Picked:  # noqa: ARG001
    """All of them."""
    return Picked(candidates)
