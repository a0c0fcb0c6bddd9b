"""Dead letters that are requeued: by two people, who may be cut off and come back when all is long forgotten.

Promises: what a letter goes on as is sent once; a letter that was neither sent nor purged is still there.
"""

from collections.abc import Iterable
from typing import NamedTuple

from tests.model.explorer import Model
from tests.model.guards import Guard
from tests.model.partition import AT_ONCE, FAULT

GUARDS = (
    Guard("requeue letter", "nothing is sent where the letter is not there any more", "two people", 1),
    Guard("requeue whole", "the letter goes in the step that sends", "two people", 2),
    Guard("requeue room", "a full door leaves the letter where it is", "two people", 1),
)
ALL = frozenset(guard.name for guard in GUARDS)

ASKS, DROPS, DONE = "asks", "drops", "done"


class Letter(NamedTuple):
    """`people`: what each does next. `known`: the ledger knows the message, so that it runs nothing again."""

    people: tuple[str, ...] = (ASKS, ASKS)
    there: bool = True
    purged: bool = False
    known: bool = False
    runs: int = 0
    faults: int = 3


class Step(NamedTuple):
    """One thing that happens."""

    name: str
    pace: int
    letter: Letter
    wrong: str = ""


class Setting(NamedTuple):
    """A scenario."""

    name: str = "two people"
    faults: int = 4
    guards: frozenset[str] = ALL


class Requeue(Model[Letter, Step]):
    """One letter."""

    within = AT_ONCE

    def __init__(self, setting: Setting) -> None:
        off = sorted(ALL - setting.guards)
        self.name = f"requeue: {setting.name}" + (f", without {', '.join(off)}" if off else "")
        self.setting = setting
        self.start = Letter(faults=setting.faults)

    def next(self, move: Step) -> Letter:
        return move.letter

    def wrong_in(self, state: Letter) -> str:
        if state.runs > 1:
            return "one letter is sent twice"
        return "" if state.there or state.purged or state.runs else "a letter is lost"

    def is_over(self, state: Letter) -> bool:
        return set(state.people) == {DONE}

    def moves(self, state: Letter) -> Iterable[Step]:
        for n, does in enumerate(state.people):
            if does == ASKS:
                yield from self._asks(state, n)
            elif does == DROPS:
                yield Step(f"person {n} drops the letter", AT_ONCE, with_person(state, n, DONE)._replace(there=False))
                if state.faults:
                    yield Step(
                        f"person {n} is cut off, and asks again later", FAULT, fault(with_person(state, n, ASKS))
                    )
        if not state.faults:
            return
        if state.known:
            yield Step("the ledger forgets the message", FAULT, fault(state)._replace(known=False))
        if state.there:
            yield Step("the letter is purged", FAULT, fault(state)._replace(there=False, purged=True))

    def _on(self, guard: str) -> bool:
        return guard in self.setting.guards

    def _asks(self, state: Letter, n: int) -> Iterable[Step]:
        if not state.there and self._on("requeue letter"):
            yield Step(f"person {n} asks: it is gone", AT_ONCE, with_person(state, n, DONE))
            return
        whole = self._on("requeue whole")
        sent = state._replace(runs=state.runs + (not state.known), known=True, there=state.there and not whole)
        after = DONE if whole else DROPS
        yield Step(f"person {n} asks: sent", AT_ONCE, with_person(sent, n, after))
        if state.faults:
            yield Step(f"person {n} asks: sent, the reply is lost", FAULT, fault(with_person(sent, n, ASKS)))
            full = state if self._on("requeue room") else state._replace(there=False)
            yield Step(f"person {n} asks: the door is full", FAULT, fault(with_person(full, n, DONE)))


def with_person(state: Letter, n: int, does: str) -> Letter:
    """The state in which person n does something else next."""
    people = (*state.people[:n], does, *state.people[n + 1 :])
    return state._replace(people=people)


def fault(state: Letter) -> Letter:
    """One fault less is left."""
    return state._replace(faults=state.faults - 1)
