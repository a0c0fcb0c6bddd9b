"""One move of a walk, and the stretches of time between them."""

from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

from reach.backend.steps import Plan
from tests.property.strangers import WholeWalker


class Move(NamedTuple):
    """One move of a walk, with words to read in a failure. `ms`: not a move, only time."""

    text: str
    make: Callable[[WholeWalker], Coroutine[Any, Any, object]] | None
    ms: int = 0

    def __repr__(self) -> str:
        return self.text


def pause(ms: int) -> Move:
    return Move(f"pause({ms})", None, ms)


def move(name: str, *args: object) -> Move:
    """The method of the walker with these arguments."""
    words = [
        _plan_text(arg)
        if isinstance(arg, Plan)
        else str([_plan_text(each) for each in arg])
        if isinstance(arg, list)
        else repr(arg)
        for arg in args
    ]
    return Move(f"{name}({', '.join(words)})", lambda walker: getattr(walker, name)(*args))


def _plan_text(plan: Plan) -> str:
    return " ".join(filter(None, [plan.act, plan.agent, "dead" * plan.dead, str(plan.wait_ms or "")]))


def live(beats: int, renewed: int | None) -> list[Move]:
    """A router that runs `due` all the while, so that no grace holds anything up."""
    renewal = [] if renewed is None else [move("renew", renewed)]
    return [pause(2_200), *renewal, move("due")] * beats
