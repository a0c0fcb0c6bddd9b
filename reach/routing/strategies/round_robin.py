"""round_robin: one after the other, by a counter for each pattern that every router has for itself."""

from collections.abc import Sequence
from random import Random

from reach.routing.agents import Agent
from reach.routing.filters import View
from reach.routing.message import Message
from reach.routing.strategies.port import Memory, Picked


def select(candidates: Sequence[Agent], message: Message, view: View, memory: Memory, rng: Random) -> Picked:  # noqa: ARG001
    """The next in the circle."""
    at = memory.next_number(message.pattern.text) % len(candidates)
    return Picked(candidates[at : at + 1])
