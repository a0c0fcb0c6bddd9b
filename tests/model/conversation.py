"""A conversation, its budget and its loops: what is counted, by whom, and when. What `ledger` says nothing about.

Promises: nobody is refused within the budget, or for honest work; nothing more is sent once it is known to be spent; two that answer each
other without end are stopped.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tests.model.explorer import Model
from tests.model.guards import Guard
from tests.model.partition import AT_ONCE, FAULT

#: messages after the first, and runs that may be paid; turns in a minute
HOPS, PAID, TURNS = 2, 2, 2

GUARDS = (
    Guard("counted", "a message that is counted is not counted again", "hops", 0),
    Guard("paid", "a run that is counted is not counted again", "cost", 0),
    Guard("before", "what a run has used is counted before its answer is heard", "cost", 0),
    Guard("rest", "a handler passes on its caller's budget, and no greater one", "a child", 0),
    Guard("deeper", "a turn counts where it lies deeper than the last one that counted", "a fan-out", 0),
    Guard("minute", "turns count within a minute", "a human pace", 0),
    Guard("deepest", "a message lies one deeper than the counted one that it answers", "no path", 0),
)
ALL = frozenset(guard.name for guard in GUARDS)


class Talk(NamedTuple):
    """A conversation so far. Counts as the hash has them, and as they truly are."""

    left: int  # messages that are still to be sent
    doubt: bool = False  # the last one was counted, and its router has died before it could send it
    counted: int = 0
    sent: int = 0
    running: bool = False
    noted: bool = False  # what the run has used is counted
    paid: int = 0  # as counted
    spent: int = 0  # as it is, of answers that were heard
    faults: int = 1
    depth: int = 0
    turns: int = 0  # as counted
    marked: int = 0  # the depth of the last turn that counted
    age: int = 0  # minutes of the window
    stopped: bool = False


class Word(NamedTuple):
    """One thing that happens."""

    name: str
    pace: int
    talk: Talk
    wrong: str = ""


class Plot(NamedTuple):
    """A scenario. `sends`: how each next message lies: `deeper`, `beside` the last one, or an answer that shows `no path`."""

    name: str
    messages: int
    sends: str = ""
    pays: bool = False
    minutes: int = 0
    raises: bool = False  # a handler sets a greater budget for what it sends
    guards: frozenset[str] = ALL


SCENARIOS = (
    Plot("hops", HOPS + 2),
    Plot("cost", PAID + 2, pays=True),
    Plot("a child", HOPS + 2, raises=True),
    Plot("a loop", TURNS + 3, sends="deeper"),
    Plot("no path", TURNS + 3, sends="no path"),
    Plot("a fan-out", TURNS + 3, sends="beside"),
    Plot("a human pace", TURNS + 3, sends="deeper", minutes=1),
)


class Conversation(Model[Talk, Word]):
    """One conversation under one scenario."""

    within = AT_ONCE

    def __init__(self, plot: Plot) -> None:
        off = sorted(ALL - plot.guards)
        self.name = f"conversation: {plot.name}" + (f", without {', '.join(off)}" if off else "")
        self.plot = plot
        self.start = Talk(plot.messages)

    def next(self, move: Word) -> Talk:
        return move.talk

    def wrong_in(self, state: Talk) -> str:
        endless = self.plot.sends in {"deeper", "no path"} and not self.plot.minutes and state.sent > TURNS
        return "two that answer each other without end go on" if endless else ""

    def is_over(self, state: Talk) -> bool:
        return state.stopped or (not state.left and not state.doubt and not state.running)

    def tell(self, moves: Sequence[Word]) -> list[str]:
        return [move.name for move in moves]

    def moves(self, state: Talk) -> Iterable[Word]:
        if state.stopped:
            return
        if state.running:
            yield from self._runs(state)
            # Somebody who has heard the answer, or does not wait for it, sends the next message.
            if not self.plot.pays:
                return
        if state.doubt:
            yield self._asked(state._replace(doubt=False), again=True)
        elif state.left and not state.running:
            aged = state._replace(age=min(state.age + self.plot.minutes, 1))
            yield self._asked(aged)
            if state.faults:
                after = self._asked(aged)
                died = after.talk._replace(doubt=True, sent=state.sent, running=False, faults=0, left=state.left)
                if not after.talk.stopped:
                    yield Word(f"{after.name}; its router dies", FAULT, died, after.wrong)

    # ---------------------------------------------------------------- converse (Lua: converse)
    def _on(self, guard: str) -> bool:
        return guard in self.plot.guards

    def _asked(self, state: Talk, *, again: bool = False) -> Word:
        """A router asks about the next message, or once more about the one that its forerunner had asked about."""
        left = state.left - 1
        if again and self._on("counted"):
            return Word("another router sends it", AT_ONCE, self._routed(state, left))
        over, wrong = self._over(state)
        if over:
            return Word(f"it is refused: {over}", AT_ONCE, state._replace(stopped=True, left=left), wrong)
        counted = state.counted + 1
        after = state._replace(counted=counted)
        if self.plot.sends:
            depth, turns, marked, age = self._turn(state)
            if turns > TURNS:
                honest = self.plot.sends == "beside" or self.plot.minutes
                told = "honest work is refused as a loop" if honest else ""
                return Word("it is refused: a loop", AT_ONCE, state._replace(stopped=True, left=left), told)
            after = after._replace(depth=depth, turns=turns, marked=marked, age=age)
        return Word("it is counted and sent", AT_ONCE, self._routed(after, left), wrong)

    def _routed(self, state: Talk, left: int) -> Talk:
        return state._replace(left=left, sent=state.sent + 1, running=self.plot.pays, noted=False)

    def _over(self, state: Talk) -> tuple[str, str]:
        """What of the budget is over, and the promise that it breaks to say so, or not to."""
        if self.plot.sends:
            return "", ""
        hops = HOPS + 9 if self.plot.raises and not self._on("rest") else HOPS
        if self.plot.pays:
            over, truly = state.paid >= PAID, state.spent >= PAID
        else:
            over, truly = state.counted > hops, state.sent > HOPS
        if over and not truly:
            return "budget", "refused within the budget"
        if truly and not over:
            return "", "more is sent than the budget allows"
        return "budget" if over else "", ""

    def _turn(self, state: Talk) -> tuple[int, int, int, int]:
        depth = 1 if self.plot.sends == "beside" else state.depth + 1
        if self.plot.sends == "no path" and not self._on("deepest"):
            depth = 1
        turns, marked, age = state.turns, state.marked, state.age
        if self._on("minute") and age >= 1:
            turns, marked, age = 0, 0, 0
        if depth > marked or not self._on("deeper"):
            turns, marked = turns + 1, depth
        return depth, turns, marked, age

    # ---------------------------------------------------------------- spend, and the answer (Lua: spend, settle)
    def _runs(self, state: Talk) -> Iterable[Word]:
        heard = state._replace(running=False, noted=False, spent=state.spent + 1)
        if not self._on("before"):
            yield Word("its answer is heard", AT_ONCE, heard)
            return
        if not state.noted:
            noted = state._replace(noted=True, paid=state.paid + 1)
            yield Word("what it has used is counted", AT_ONCE, noted)
        else:
            yield Word("its answer is heard", AT_ONCE, heard)
            if state.faults:
                paid = state.paid if self._on("paid") else state.paid + 1
                yield Word("the count is repeated: its reply was lost", FAULT, state._replace(paid=paid, faults=0))
