"""The circuit of one agent, with several messages for it: what the row of its health keeps from it. What `ledger` says nothing about.

Promises: while the circuit is not closed one run starts in 30 s, and one probe is under way; no single death and no single message opens
it; nobody but the probe closes it; what waits goes on in the end. A message that waits is with any router: they all ask the same row.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tests.model.explorer import Model
from tests.model.guards import Guard
from tests.model.partition import AT_ONCE, FAULT

#: in steps of 5 s; two failures in a row instead of five
OPEN, DEATH, JUMP, IN_A_ROW = 6, 3, 12, 2
WAITS, LIES, RUNS, LOST, OVER = "waits", "lies", "runs", "lost", "over"

GUARDS = (
    Guard("route asks", "route hands nothing to an agent whose circuit is open", "failures", 2),
    Guard("take asks", "what lay in the inbox when it opened goes back", "failures", 2),
    Guard("one probe", "while a probe is under way no other goes", "failures", 2),
    Guard("probe frees", "what has become of the probe is read in the ledger", "cancels", 3),
    Guard("probe bound", "30 s count from the start of the probe", "cancels", 3),
    Guard("only probe", "while it is not closed only the probe counts", "failures", 2),
    Guard("death once", "one death counts once, however many messages were in hand", "deaths", 1),
    Guard("no news", "a message that fails where it has failed before does not count", "failures", 2),
    Guard("stepped back", "a moment of the future is over", "a jump", 2),
)
ALL = frozenset(guard.name for guard in GUARDS)


class Work(NamedTuple):
    """A message. `probe`: its present hand is the one that the row names."""

    state: str = WAITS
    probe: bool = False
    failed: bool = False


class Agent(NamedTuple):
    """The agent's row and messages. `opened`, `died`: how long ago, None: never. `marked`: the row names a probe.

    `quiet`: how long ago it opened, or a run began behind it. `barred`: for how long all wait, and no probe is under way. `troubles`: what
    has been noticed of what truly went wrong, since something went well; `news`: the last death is not yet among it.
    """

    works: tuple[Work, ...]
    run: int = 0
    opened: int | None = None
    died: int | None = None
    marked: bool = False
    quiet: int = 0
    barred: int = 0
    troubles: int = 0
    news: bool = False
    faults: int = 0
    jumps: int = 0


class Event(NamedTuple):
    """One thing that happens."""

    name: str
    pace: int
    agent: Agent
    wrong: str = ""


class Case(NamedTuple):
    """A scenario."""

    name: str
    kinds: frozenset[str]
    faults: int
    works: int = 3
    jumps: int = 0
    guards: frozenset[str] = ALL


SCENARIOS = (
    Case("failures", frozenset({"fails"}), 3),
    Case("deaths", frozenset({"fails", "dies"}), 3),
    Case("cancels", frozenset({"fails", "cancel"}), 3),
    Case("a jump", frozenset({"fails", "dies"}), 4, works=2, jumps=1),
    Case("all", frozenset({"fails", "dies", "cancel"}), 4, works=2, jumps=1),
)


class Circuit(Model[Agent, Event]):
    """One agent under one scenario."""

    within = AT_ONCE

    def __init__(self, case: Case) -> None:
        off = sorted(ALL - case.guards)
        self.name = f"circuit: {case.name}" + (f", without {', '.join(off)}" if off else "")
        self.case = case
        self.start = Agent((Work(),) * case.works, faults=case.faults, jumps=case.jumps)

    def next(self, move: Event) -> Agent:
        works = tuple(sorted(move.agent.works))  # which is which does not matter
        return move.agent._replace(works=works)

    def wrong_in(self, state: Agent) -> str:
        probes = sum(work.probe and work.state in {LIES, RUNS} for work in state.works)
        if probes > 1:
            return "two probes at once"
        return "nobody goes although 30 s are over" if state.barred > OPEN else ""

    def is_over(self, state: Agent) -> bool:
        return all(work.state == OVER for work in state.works)

    def tell(self, moves: Sequence[Event]) -> list[str]:
        return [move.name for move in moves]

    def moves(self, state: Agent) -> Iterable[Event]:
        for n, work in enumerate(state.works):
            if work.state == WAITS:
                yield self._route(state, n)
            elif work.state == LIES:
                yield self._take(state, n)
            elif work.state == RUNS:
                yield from self._ends(state, n)
            elif work.state == LOST:
                lost, wrong = self._tally(_seen(state, work), n, good=False, death=True)
                yield Event("due: one of its messages is lost", AT_ONCE, self._put(lost, n, Work(failed=True)), wrong)
            if work.state in {LIES, RUNS} and state.faults and "cancel" in self.case.kinds:
                after = self._put(state, n, Work(OVER))._replace(faults=state.faults - 1)
                yield Event(f"one that {work.state} is cancelled", FAULT, after)
        yield from self._time(state)

    # ---------------------------------------------------------------- route, take (Lua: circuits)
    def _on(self, guard: str) -> bool:
        return guard in self.case.guards

    @staticmethod
    def _put(state: Agent, n: int, work: Work) -> Agent:
        return state._replace(works=(*state.works[:n], work, *state.works[n + 1 :]))

    def _shut(self, state: Agent) -> bool:
        if state.opened is None:
            return False
        if state.opened < OPEN and (state.opened >= 0 or not self._on("stepped back")):
            return True
        if not self._on("one probe"):
            return False
        under_way = any(work.probe and work.state in {LIES, RUNS, LOST} for work in state.works)
        return under_way if self._on("probe frees") else state.marked

    def _route(self, state: Agent, n: int) -> Event:
        if self._shut(state) and self._on("route asks"):
            return Event("route: open", AT_ONCE, state)
        is_probe = state.opened is not None
        after = self._put(state, n, state.works[n]._replace(state=LIES, probe=is_probe))
        return Event("route: handed over", AT_ONCE, after._replace(marked=state.marked or is_probe, barred=0))

    def _take(self, state: Agent, n: int) -> Event:
        work = state.works[n]
        if state.opened is None:
            return Event("take: runs", AT_ONCE, self._put(state, n, work._replace(state=RUNS)))
        if not work.probe and self._on("take asks"):
            return Event("take: goes back", AT_ONCE, self._put(state, n, work._replace(state=WAITS)))
        wrong = "two runs begin in 30 s behind an open circuit" if state.quiet < OPEN else ""
        opened = 0 if self._on("probe bound") else state.opened
        after = self._put(state, n, work._replace(state=RUNS))._replace(quiet=0, opened=opened)
        return Event("take: the probe runs", AT_ONCE, after, wrong)

    # ---------------------------------------------------------------- settle, due (Lua: health)
    def _ends(self, state: Agent, n: int) -> Iterable[Event]:
        good, wrong = self._tally(state, n, good=True)
        yield Event("settle: a success", AT_ONCE, self._put(good, n, Work(OVER)), wrong)
        if state.faults and "fails" in self.case.kinds:
            is_new = not state.works[n].failed
            bad, wrong = self._tally(state._replace(troubles=min(state.troubles + is_new, IN_A_ROW)), n, good=False)
            after = self._put(bad, n, Work(failed=True))._replace(faults=state.faults - 1)
            yield Event("settle: a failure", FAULT, after, wrong)

    def _tally(self, state: Agent, n: int, *, good: bool, death: bool = False) -> tuple[Agent, str]:
        work = state.works[n]
        if state.opened is not None:
            if not work.probe and self._on("only probe"):
                return state, ""
            if good:
                closed = state._replace(run=0, opened=None, died=None, marked=False, troubles=0)
                return closed, "" if work.probe else "it is closed by a run that had begun before"
            return state._replace(opened=0, marked=False, quiet=0, barred=0), ""
        if work.failed and not good and self._on("no news"):
            return state, ""
        if death and state.died is not None and state.died < DEATH and self._on("death once"):
            return state._replace(died=max(state.died, 0)), ""
        if good:
            return state._replace(run=0, troubles=0), ""
        after = state._replace(run=state.run + 1, died=0 if death else state.died)
        if after.run < IN_A_ROW:
            return after, ""
        wrong = "one death, or one message, opens it alone" if state.troubles < IN_A_ROW else ""
        return after._replace(opened=0, quiet=0, barred=0), wrong

    # ---------------------------------------------------------------- time
    def _time(self, state: Agent) -> Iterable[Event]:
        if state.faults and "dies" in self.case.kinds and any(work.state == RUNS for work in state.works):
            works = tuple(work._replace(state=LOST) if work.state == RUNS else work for work in state.works)
            yield Event("it dies", FAULT, state._replace(works=works, news=True, faults=state.faults - 1))
        if state.jumps:
            back = state._replace(opened=_aged(state.opened, -JUMP), died=_aged(state.died, -JUMP))
            yield Event("the clock steps back", FAULT, back._replace(quiet=OPEN, jumps=0))
        if not any(work.state == LOST for work in state.works):  # all of a death is noticed within a lease
            aged = state._replace(
                opened=_aged(state.opened, 1), died=_aged(state.died, 1), quiet=min(state.quiet + 1, OPEN + 1)
            )
            waits = any(work.state == WAITS for work in state.works)
            under_way = any(work.probe and work.state in {LIES, RUNS} for work in state.works)
            barred = state.barred + 1 if waits and not under_way and self._shut(state) else 0
            yield Event("5 s", AT_ONCE, aged._replace(barred=barred))


def _seen(state: Agent, work: Work) -> Agent:
    """What is noticed of a death, at the first message that tells of it."""
    if work.failed or not state.news:
        return state
    return state._replace(troubles=min(state.troubles + 1, IN_A_ROW), news=False)


def _aged(age: int | None, by: int) -> int | None:
    return None if age is None else min(age + by, OPEN)
