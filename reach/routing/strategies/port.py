"""What a strategy is: a plain function, and the little that it may remember."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import NamedTuple, Protocol

from reach.routing.agents import Agent, History
from reach.routing.filters import View
from reach.routing.message import Message
from reach.routing.strategies.level import Level
from reach.routing.strategies.meetings import Meetings

#: Counters are kept for so many patterns; then all start again, which costs fairness for a moment and nothing else.
MAX_COUNTERS = 4_096
#: The same for what is with each agent.
MAX_LEVELS = 50_000


class Memory:
    """What one router remembers between choices. Lost with it: no strategy may need it to be right.

    `meetings`: whom sources have met; what other routers know of it is added before a choice that asks for it.
    """

    def __init__(self) -> None:
        self._counters: dict[str, int] = {}
        self._turns: dict[str, dict[str, float]] = {}
        self._levels: dict[str, Level] = {}
        self.meetings = Meetings()

    def next_number(self, name: str) -> int:
        """0, 1, 2, ... for each name."""
        if len(self._counters) >= MAX_COUNTERS and name not in self._counters:
            self._counters.clear()
        number = self._counters.get(name, 0)
        self._counters[name] = number + 1
        return number

    def next_of(self, name: str, shares: Mapping[str, float]) -> str:
        """Whose turn it is, so that after any number of turns each has had its share of them, to within one.

        Each is credited its share at every turn; who has most pays for the whole turn and has it.
        """
        if len(self._turns) >= MAX_COUNTERS and name not in self._turns:
            self._turns.clear()
        credit = self._turns.setdefault(name, {})
        for gone in credit.keys() - shares.keys():
            del credit[gone]
        for one, share in shares.items():
            credit[one] = credit.get(one, 0.0) + share
        chosen = max(shares, key=lambda one: credit[one])
        credit[chosen] -= sum(shares.values())
        return chosen

    def note_sent(self, agent_id: str, now_ms: int) -> None:
        """This router has chosen the agent."""
        if agent_id in self._levels:
            self._levels[agent_id].send(now_ms)

    def note_lies(self, agent_id: str, partition: int, lies: int, now_ms: int) -> None:
        """So many messages lay with the agent when one was handed to it, whoever has sent them."""
        if agent_id in self._levels:
            self._levels[agent_id].count(partition, lies, now_ms)

    def level(self, agent_id: str, history: History, now_ms: int, answers_ms: float) -> float:
        """How many messages are with the agent now, running or queued, as far as its beat and this router's own sends tell."""
        level = self._levels.get(agent_id)
        if level is None:
            if len(self._levels) >= MAX_LEVELS:
                self._levels.clear()
            level = self._levels[agent_id] = Level()
        level.hear(history, answers_ms)
        return level.drain(now_ms)


class Picked(NamedTuple):
    """Who was chosen: a part of the candidates, never empty.

    `scores`: what each candidate weighed, where there was a draw. `aside`: agent_id -> why it was passed over though it fits.
    """

    chosen: Sequence[Agent]
    scores: Sequence[float] = ()
    aside: Mapping[str, str] = {}


class Strategy(Protocol):
    """Chooses among those who fit."""

    def __call__(
        self, candidates: Sequence[Agent], message: Message, view: View, memory: Memory, rng: Random
    ) -> Picked:
        """Choose.

        Args:
            candidates: At least one, by agent_id in order; all of them fit.
            message: What is to be sent.
            view: The moment and the policy.
            memory: This router's own; lost with it.
            rng: The only source of chance.

        Returns:
            Some of the candidates, never nobody; one of them for scope one.
        """
        ...
