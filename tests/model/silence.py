"""Whose silence it is: one agent, a router's reaper, and a server that may take no writes or whose clock may step back. A tick is a beat.

Promises: an agent that beats whenever it can is neither suspect nor removed; one that is dead is removed in time.
"""

from collections.abc import Iterable
from typing import NamedTuple

from tests.model.explorer import Model
from tests.model.guards import Guard
from tests.model.partition import AT_ONCE, FAULT

GUARDS = (
    Guard("silence heard", "a look counts only where the server would have taken a beat", "one agent", 1),
    Guard("silence asked again", "a removal asks whether there has been a beat since the look", "one agent", 2),
    Guard("silence ahead", "a beat of the future counts from now", "one agent", 2),
    Guard("silence known", "nobody is suspect for what lies behind the last look", "one agent", 1),
)
ALL = frozenset(guard.name for guard in GUARDS)

SUSPECT, REMOVED, GRACE, STEP = 3, 6, 3, 12
#: A dead agent is gone after so many ticks without a fault: six, a grace, and the looks between.
IN_TIME = REMOVED + GRACE + 2
#: Nothing differs any more behind these.
MOST_AGE, MOST_DEAD = STEP + REMOVED + 1, IN_TIME + 1


class Scene(NamedTuple):
    """Ticks since the last beat as it is stored (below 0: of the future), since the last look that counted, left of the grace."""

    alive: bool = True
    stopped: bool = False  # it cannot beat, by no fault of the server
    age: int = 0
    writes: bool = True
    behind: bool = False  # writes are taken again, and it comes behind the reaper with its beat
    looked: int = 0
    grace: int = 0
    read: bool = False  # the reaper has read that it is silent, and has not removed it yet
    beaten: bool = False  # and it has beaten since
    removed: bool = False
    dead: int = 0
    wrong: str = ""
    faults: int = 2


class Step(NamedTuple):
    """One thing that happens."""

    name: str
    pace: int
    scene: Scene
    wrong: str = ""


class Setting(NamedTuple):
    """A scenario."""

    name: str = "one agent"
    faults: int = 3
    guards: frozenset[str] = ALL


class Silence(Model[Scene, Step]):
    """One agent under one reaper that is also the eyes of a router."""

    within = AT_ONCE

    def __init__(self, setting: Setting) -> None:
        off = sorted(ALL - setting.guards)
        self.name = f"silence: {setting.name}" + (f", without {', '.join(off)}" if off else "")
        self.setting = setting
        self.start = Scene(faults=setting.faults)

    def next(self, move: Step) -> Scene:
        return move.scene

    def wrong_in(self, state: Scene) -> str:
        if state.dead >= IN_TIME and not state.removed:
            return "a dead agent is not removed in time"
        return state.wrong

    def is_over(self, state: Scene) -> bool:
        return True

    def moves(self, state: Scene) -> Iterable[Step]:
        if state.removed:
            return
        yield Step("a tick", AT_ONCE, self._tick(state))
        yield Step("a router decides", AT_ONCE, self._decides(state))
        if state.read and state.writes:
            yield Step("the reaper removes it", AT_ONCE, self._removes(state))
        if state.stopped and state.alive and state.writes:  # else it is as if it stood still for longer
            yield Step("it goes on", AT_ONCE, self._beats(state._replace(stopped=False)))
        if not state.writes:
            yield Step("writes are taken again, and the reaper is first", AT_ONCE, self._looks(heal(state, True)))
            yield Step("writes are taken again", AT_ONCE, self._looks(self._beats(heal(state))))
        if state.faults and not state.behind:  # a second later it has beaten
            less = state._replace(faults=state.faults - 1, dead=0)
            yield Step("no write is taken any more", FAULT, less._replace(writes=False))
            yield Step("its process is stopped", FAULT, less._replace(stopped=True))
            yield Step("it dies", FAULT, less._replace(alive=False, stopped=True))
            yield Step("the clock of the server steps back", FAULT, less._replace(age=state.age - STEP))
            yield Step("a tick, in which the reaper reads and stands still", FAULT, self._tick(less, stands=True))
            yield Step("the router stands still for four ticks", FAULT, self._deaf(less))

    def _on(self, guard: str) -> bool:
        return guard in self.setting.guards

    def _tick(self, state: Scene, stands: bool = False) -> Scene:
        """The agent beats where it can, then the reaper looks, and removes whom it finds silent."""
        on = state._replace(
            age=min(state.age + 1, MOST_AGE),
            looked=min(state.looked + 1, MOST_AGE),
            grace=max(state.grace - 1, 0),
            dead=min(state.dead + 1, MOST_DEAD) if not state.alive and state.writes else 0,
        )
        return self._looks(self._beats(on), stands)

    def _beats(self, state: Scene) -> Scene:
        return state._replace(age=0, behind=False, beaten=state.read) if state.writes and not state.stopped else state

    def _looks(self, state: Scene, stands: bool = False) -> Scene:
        if not state.writes and self._on("silence heard"):
            return state
        late = state.looked > 1
        age = 0 if state.age < 0 and self._on("silence ahead") else state.age
        seen = state._replace(looked=0, age=age, grace=GRACE if late else state.grace)
        # Without writes it may look, and remove nobody: that is a write.
        if not seen.writes or not self._is_silent(seen):
            return seen
        return seen._replace(read=True) if stands else self._removes(seen)

    def _is_silent(self, state: Scene) -> bool:
        return not state.grace and state.age >= REMOVED

    def _removes(self, state: Scene) -> Scene:
        if state.beaten and self._on("silence asked again"):
            return state._replace(read=False, beaten=False)
        wrong = "" if state.stopped else "an agent that beats whenever it can is removed"
        return state._replace(read=False, beaten=False, removed=True, wrong=wrong)

    def _deaf(self, state: Scene) -> Scene:
        """The others go on: the beats stand there, and nobody has read them. It wakes up and decides before it looks."""
        deaf = state._replace(looked=max(state.looked, GRACE))
        known = 0 if self._on("silence known") else GRACE + 1
        suspect = known >= SUSPECT and not state.stopped and state.writes
        return deaf._replace(wrong="an agent that beats whenever it can is suspect") if suspect else deaf

    def _decides(self, state: Scene) -> Scene:
        """By the last look: what came after it is not known."""
        told = state.age - (state.looked if self._on("silence known") else 0)
        suspect = not state.grace and told >= SUSPECT and not state.stopped
        return state._replace(wrong="an agent that beats whenever it can is suspect") if suspect else state


def heal(state: Scene, behind: bool = False) -> Scene:
    """Writes are taken again; `behind`: and somebody is quicker than the agent."""
    return state._replace(writes=True, behind=behind)
