"""The guard of one effect (`ctx.once`): runs of one message, one after the other or side by side, that each want it made once.

Promises: it is made once, but for a run that dies, or is out of reach for a lease, between the effect and its keeping; whoever asks is
told the same result; nobody begins who has lost the message; and no run waits for ever for one that has died.
"""

from collections.abc import Iterable
from typing import NamedTuple

from tests.model.explorer import Model
from tests.model.guards import Guard
from tests.model.partition import AT_ONCE, BY_DUE, FAULT

GUARDS = (
    Guard("once owner", "while one run has the guard the others wait", "two runs", 2),
    Guard("once lease", "the guard of a run that is gone is free when its lease is over", "two runs", 1),
    Guard("once renewed", "a run that lives renews its lease until the effect is over", "two runs", 1),
    Guard("once kept", "what came of the effect is kept, and told to every later run", "two runs", 1),
    Guard("once holder", "only a run that has the message may begin", "two runs", 2),
    Guard("once ender", "only who has the guard writes the end of it, or frees it", "three runs", 3),
    Guard("once outlives", "the guard outlives the record of its message", "sent again", 1),
)
ALL = frozenset(guard.name for guard in GUARDS)

#: a run: not there yet, wants the effect, may make it, has made it, knows the result, has raised or was sent away, is dead
NEW, READY, MINE, MADE, TOLD, OUT, DEAD = "new", "ready", "mine", "made", "told", "out", "dead"
NOBODY = -1


class Run(NamedTuple):
    """`holds`: the message is its own. `made`, `excused`: whether it made the effect, and then died or was away before it was kept."""

    at: str = NEW
    holds: bool = False
    made: bool = False
    excused: bool = False


class Once(NamedTuple):
    """The guard (owner, whether his lease goes on, whose result is kept), the runs, and what the first who asked was told."""

    runs: tuple[Run, ...]
    owner: int = NOBODY
    leased: bool = False
    value: int = NOBODY
    told: int = NOBODY
    faults: int = 0


class Step(NamedTuple):
    """One thing that happens."""

    name: str
    pace: int
    once: Once
    wrong: str = ""


class Setting(NamedTuple):
    """A scenario: how many runs there are, and how many faults."""

    name: str
    runs: int
    faults: int
    sent_again: bool = False
    guards: frozenset[str] = ALL


SCENARIOS = (
    Setting("one run", 1, 3),
    Setting("two runs", 2, 4),
    Setting("three runs", 3, 6),
    Setting("sent again", 3, 4, sent_again=True),
)


class OnceGuard(Model[Once, Step]):
    """One guard under one scenario."""

    within = BY_DUE

    def __init__(self, setting: Setting) -> None:
        off = sorted(ALL - setting.guards)
        self.name = f"once: {setting.name}" + (f", without {', '.join(off)}" if off else "")
        self.setting = setting
        runs = (Run(READY, holds=True), *(Run() for _ in range(setting.runs - 1)))
        self.start = Once(runs, faults=setting.faults)

    def next(self, move: Step) -> Once:
        return move.once

    def wrong_in(self, state: Once) -> str:
        made = [run for run in state.runs if run.made and not run.excused]
        return "the effect is made twice" if len(made) > 1 else ""

    def is_over(self, state: Once) -> bool:
        """The one that has the message knows the result, or nobody is left to try."""
        last = state.runs[-1]
        return any(run.at == TOLD and run.holds for run in state.runs) or last.at in {OUT, DEAD}

    def moves(self, state: Once) -> Iterable[Step]:
        for n, run in enumerate(state.runs):
            if run.at == READY:
                yield from self._asks(state, n)
            elif run.at == MINE:
                yield from self._makes(state, n)
            elif run.at == MADE:
                yield from self._keeps(state, n)
            yield from self._goes_on(state, n)
        yield from self._lease_ends(state)

    def _on(self, guard: str) -> bool:
        return guard in self.setting.guards

    # ---------------------------------------------------------------- one run
    def _asks(self, state: Once, n: int) -> Iterable[Step]:
        """once_take."""
        run, text = state.runs[n], f"run {n} asks"
        if state.value != NOBODY and self._on("once kept"):
            wrong = "two runs are told different results" if state.told not in {NOBODY, state.value} else ""
            yield Step(f"{text}: done", AT_ONCE, with_run(state._replace(told=state.value), n, at=TOLD), wrong)
            return
        mine = state.owner == n  # it did not hear that it has the guard
        if not mine:
            if state.owner != NOBODY and state.leased and self._on("once owner"):
                return  # it waits
            if not run.holds and self._on("once holder"):
                yield Step(f"{text}: stale", AT_ONCE, with_run(state, n, at=OUT))
                return
        wrong = "" if run.holds or mine else "a run begins that has lost the message"
        after = state._replace(owner=n, leased=True)
        yield Step(f"{text}: mine", AT_ONCE, with_run(after, n, at=MINE), wrong)
        if state.faults:
            yield Step(f"{text}: mine, the reply is lost", FAULT, fault(after))

    def _makes(self, state: Once, n: int) -> Iterable[Step]:
        yield Step(f"run {n} makes the effect", AT_ONCE, with_run(state, n, at=MADE, made=True))
        if state.faults:
            freed = state
            if state.owner in {n, NOBODY} or not self._on("once ender"):
                freed = state._replace(owner=NOBODY, leased=False)
            yield Step(f"the function of run {n} raises", FAULT, self._to_next(with_run(fault(freed), n, at=OUT), n))

    def _keeps(self, state: Once, n: int) -> Iterable[Step]:
        """once_end. Who hears that the guard is another's has its own result, and the ledger wants it no more."""
        kept = state
        if state.value == NOBODY and (state.owner in {n, NOBODY} or not self._on("once ender")):
            kept = state._replace(owner=n, leased=False, value=n)
        elif not self._on("once ender"):
            kept = state._replace(value=n)
        told = n if kept.value == n and state.told == NOBODY else state.told
        yield Step(f"run {n} keeps the result", AT_ONCE, with_run(kept._replace(told=told), n, at=TOLD))
        if state.faults:
            yield Step(f"run {n} keeps the result, the reply is lost", FAULT, fault(kept))

    def _goes_on(self, state: Once, n: int) -> Iterable[Step]:
        """It dies, is out of reach, loses the message, or its message comes again after its end."""
        run = state.runs[n]
        if run.at == DEAD and run.holds:
            yield Step(f"the message of run {n} is taken over", BY_DUE, self._to_next(state, n))
        if not state.faults or run.at in {NEW, OUT, DEAD}:
            return
        lost = run.at == MADE and state.value != n
        yield Step(f"run {n} dies", FAULT, with_run(fault(state), n, at=DEAD, excused=run.excused or lost))
        if run.at in {MINE, MADE} and state.owner == n and state.leased:
            away = with_run(fault(state)._replace(leased=False), n, excused=True)
            yield Step(f"run {n} is out of reach for a lease", FAULT, away)
        if run.holds and n + 1 < len(state.runs):
            yield Step(f"run {n} is overdue, the message goes on", FAULT, self._to_next(fault(state), n))
            if self.setting.sent_again and run.at == TOLD:
                after = fault(state) if self._on("once outlives") else fault(state)._replace(owner=NOBODY, value=NOBODY)
                yield Step("the record is forgotten, the message sent again", FAULT, self._to_next(after, n))

    @staticmethod
    def _to_next(state: Once, n: int) -> Once:
        """The message goes from run n to the next one, where it was its own and there is one."""
        if not state.runs[n].holds or n + 1 == len(state.runs):
            return state
        return with_run(with_run(state, n, holds=False), n + 1, at=READY, holds=True)

    # ---------------------------------------------------------------- time
    def _lease_ends(self, state: Once) -> Iterable[Step]:
        if not state.leased or not self._on("once lease"):
            return
        at_work = state.runs[state.owner].at in {MINE, MADE}
        if not at_work or not self._on("once renewed"):
            yield Step(f"the lease of run {state.owner} is over", BY_DUE, state._replace(leased=False))


def with_run(state: Once, n: int, **changes: object) -> Once:
    """The state with another run n."""
    runs = list(state.runs)
    runs[n] = runs[n]._replace(**changes)  # type: ignore[arg-type]
    return state._replace(runs=tuple(runs))


def fault(state: Once) -> Once:
    """One fault less is left."""
    return state._replace(faults=state.faults - 1)
