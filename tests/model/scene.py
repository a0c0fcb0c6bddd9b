"""What happens, one thing at a time: the form in which it is told. In words `#3` is a hand and `@3` an instance; traces give them names."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.model.partition import Partition, Setting
from tests.model.world import (
    AGAIN,
    ASKS,
    GUESS,
    HANDED_BACK,
    INGRESS,
    RETRYABLE,
    SUCCESS,
    UNSURE,
    Decision,
    Entry,
    Plan,
    World,
)

OUTCOMES = {
    SUCCESS: "success",
    RETRYABLE: "retryable",
    HANDED_BACK: "hands it back",
    UNSURE: "not sure enough",
    GUESS: "a guess",
    ASKS: "asks",
}


Call = tuple[Any, ...]


class Step(NamedTuple):
    """One thing that may happen.

    `pace`: how soon it does by itself, FAULT: perhaps never; `made`: the transitions of legs; `calls`: what it does to a backend, for
    `replay` (none where only processes change); `untold`: legs of whose end an entry of `receipts` tells.
    """

    name: str
    pace: int
    world: World
    wrong: str
    made: tuple[tuple[str, str], ...]
    calls: tuple[Call, ...]
    untold: tuple[int, ...] = ()


Steps = Iterator[Step]


class Scene(ABC):
    """Somebody who acts in a scenario."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting

    @abstractmethod
    def of(self, world: World) -> Steps:
        """Everything that it may do now, always in the same order."""

    def open(self, world: World) -> Partition:
        return Partition(self.setting, world)

    def may(self, world: World, kind: str) -> Iterator[Partition]:
        """A working copy in which the fault is counted, if it may happen."""
        if world.faults > 0 and kind in self.setting.kinds:
            yield self.open(world).fault()

    def chosen(self, world: World, kind: str) -> Iterator[Partition]:
        """The same; without a kind it is no fault, and may always happen."""
        if kind:
            yield from self.may(world, kind)
        else:
            yield self.open(world)


def step(name: str, pace: int, p: Partition, *calls: Call) -> Step:
    """What has happened."""
    return Step(name, pace, p.after(), p.wrong, tuple(p.made), calls, tuple(p.untold))


def about(entry: Entry | Decision) -> str:
    """Which message, or which leg and hand."""
    if entry.door == INGRESS:
        return f"ingress of caller {entry.about[0]}"
    text = f"{entry.door} (leg {entry.about[0]}, #{entry.about[1]})"
    return text if entry.door == AGAIN else f"{text} {OUTCOMES[entry.about[2]]}"


def said(decision: Decision) -> str:
    """What was decided."""

    def word(plan: Plan) -> str:
        return plan.act + (f" to agent {plan.agent}" if plan.act in {"deliver", "move"} else "")

    return ", " + " + ".join(map(word, decision.plans)) if decision.plans else ""
