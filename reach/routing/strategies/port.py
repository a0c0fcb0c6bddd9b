"""What a strategy is: a plain function, and the little that it may remember."""

from collections.abc import Sequence
from random import Random
from typing import Protocol

from reach.routing.agents import Agent
from reach.routing.filters import View
from reach.routing.message import Message

#: Counters are kept for so many patterns; then all start again, which costs fairness for a moment and nothing else.
MAX_COUNTERS = 4_096


class Memory:
    """What one router remembers between choices. Lost with it: no strategy may need it to be right."""

    def __init__(self) -> None:
        self._counters: dict[str, int] = {}

    def next_number(self, name: str) -> int:
        """0, 1, 2, ... for each name."""
        if len(self._counters) >= MAX_COUNTERS and name not in self._counters:
            self._counters.clear()
        number = self._counters.get(name, 0)
        self._counters[name] = number + 1
        return number


class Strategy(Protocol):
    """Chooses among those who fit."""

    def __call__(
        self, candidates: Sequence[Agent], message: Message, view: View, memory: Memory, rng: Random
    ) -> Sequence[Agent]:
        """Choose.

        Args:
            candidates: At least one, by agent_id in order; all of them fit.
            message: What is to be sent.
            view: The moment and the policy.
            memory: This router's own; lost with it.
            rng: The only source of chance.

        Returns:
            A part of `candidates`, never empty; one of them for scope one.
        """
        ...
