"""Breadth-first explorer: every state that can be reached, the shortest way to a broken promise, and what cannot end any more.

A state is remembered by its 64-bit hash alone (two of 10 million states share one with a chance of 1 in 350,000), so that a machine holds
tens of millions; the way to a state is replayed from the start.
"""

from abc import ABC, abstractmethod
from array import array
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from time import monotonic
from typing import Generic, NamedTuple, Protocol, TypeVar

State = TypeVar("State", bound=Hashable)


class Move(Protocol):
    """One thing that may happen; `name` in the words of the protocol, `wrong`: the promise that it breaks."""

    @property
    def name(self) -> str: ...
    @property
    def pace(self) -> int: ...
    @property
    def wrong(self) -> str: ...


M = TypeVar("M", bound=Move)


class Model(ABC, Generic[State, M]):
    """What is explored."""

    name: str
    start: State
    #: every state must be able to end by moves that happen by themselves this soon
    within: int

    @abstractmethod
    def moves(self, state: State) -> Iterable[M]:
        """Everything that may happen next, always in the same order."""

    @abstractmethod
    def next(self, move: M) -> State:
        """The state that a move leads to, in its canonical form."""

    @abstractmethod
    def wrong_in(self, state: State) -> str:
        """The promise that a state breaks, or ""."""

    @abstractmethod
    def is_over(self, state: State) -> bool:
        """Whether everybody has what was promised."""

    def tell(self, moves: Sequence[M]) -> list[str]:
        """The moves from the start, for a reader."""
        return [move.name for move in moves]


class Broken(NamedTuple):
    """A counterexample. `trace`: the shortest one."""

    what: str
    trace: list[str]

    def __str__(self) -> str:
        return f"  BROKEN: {self.what}\n" + "".join(f"    {k}. {line}\n" for k, line in enumerate(self.trace, 1))


class Report(NamedTuple):
    """What was found, and how far the search has come."""

    name: str
    explored: int
    reached: int
    moves: int
    complete: bool
    seconds: float
    broken: list[Broken]

    def __str__(self) -> str:
        text = (
            f"{self.name}: {self.explored:,} states explored, {self.reached:,} reached, {self.moves:,} moves, "
            f"{'complete' if self.complete else 'CUT'}, {self.seconds:.1f} s"
        )
        return "\n".join([text, *map(str, self.broken)])


class _Search(Generic[State, M]):
    def __init__(self, model: Model[State, M]) -> None:
        self.model = model
        self.known: dict[int, int] = {hash(model.start): 0}
        self.frontier: deque[tuple[int, State]] = deque([(0, model.start)])
        self.parent, self.by = array("I", [0]), array("H", [0])
        self.ends = bytearray([model.is_over(model.start)])
        self.sources, self.targets = array("I"), array("I")
        self.broken: dict[str, Broken] = {}
        self.count = 0

    def expand(self, index: int, state: State) -> None:
        model = self.model
        for k, move in enumerate(model.moves(state)):
            self.count += 1
            after = model.next(move)
            found = self.known.get(hash(after))
            if found is None:
                found = self.known[hash(after)] = len(self.ends)
                self.parent.append(index)
                self.by.append(k)
                self.ends.append(model.is_over(after))
                wrong = move.wrong or model.wrong_in(after)
                if not wrong:
                    self.frontier.append((found, after))
                else:  # what comes after a broken promise is not looked at
                    self.ends[found] = 1
            else:
                wrong = move.wrong
            if wrong and wrong not in self.broken:
                self.broken[wrong] = Broken(wrong, self.trace(index, k))
            if move.pace <= model.within:
                self.sources.append(index)
                self.targets.append(found)

    def trace(self, index: int, last: int | None = None) -> list[str]:
        """The way to a state, replayed from the start."""
        path = [] if last is None else [last]
        while index:
            path.append(self.by[index])
            index = self.parent[index]
        moves: list[M] = []
        state = self.model.start
        for k in reversed(path):
            move = list(self.model.moves(state))[k]
            moves.append(move)
            state = self.model.next(move)
        return self.model.tell(moves)

    def stuck(self) -> int | None:
        """The first state from which no end can be reached soon enough. What was not explored counts as if it could."""
        good = bytearray(self.ends)
        for index, _ in self.frontier:
            good[index] = 1
        news = True
        while news:
            news = False
            for k in range(len(self.sources) - 1, -1, -1):
                if good[self.targets[k]] and not good[self.sources[k]]:
                    good[self.sources[k]] = 1
                    news = True
        return next((index for index, is_good in enumerate(good) if not is_good), None)


def explore(
    model: Model[State, M],
    *,
    max_states: int = 100_000_000,
    max_seconds: float = 3600,
    until: Callable[[str], bool] | None = None,
) -> Report:
    """Explore breadth first. `until`: stop at the first broken promise for which it answers True."""
    started = monotonic()
    search = _Search(model)
    explored = 0
    while search.frontier and explored < max_states and monotonic() - started < max_seconds:
        search.expand(*search.frontier.popleft())
        explored += 1
        if until is not None and any(map(until, search.broken)):
            break
    broken = list(search.broken.values())
    if not broken and (stuck := search.stuck()) is not None:
        broken = [Broken("from here no end can be reached in time", search.trace(stuck))]
    seconds = monotonic() - started
    return Report(model.name, explored, len(search.ends), search.count, not search.frontier, seconds, broken)
