"""The lease of one run in seconds: Redis goes away, routers are slow, its clock jumps. What `ledger` calls grace, told exactly.

A holder that lives renews every 5 s and is back at most BACK seconds after an outage. Promises: a live holder keeps its work; a dead one's
is taken over at most LIMIT seconds after the last trouble (its death, an outage, a jump), while routers live.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from tests.model.explorer import Model
from tests.model.guards import Guard
from tests.model.partition import AT_ONCE, FAULT

LEASE, GRACE, RENEW, BACK, LIMIT = 15, 15, 5, 3, 50

GUARDS = (
    Guard("grace", "a tick older than 3 s starts 15 s in which no lease ends", "an outage", 0),
    Guard("first", "the tick is judged before the leases of the same call", "an outage", 0),
    Guard("caller", "a caller's due writes no tick and ends no lease", "a caller's due", 0),
    Guard("pause", "no grace within 30 s of the last one's start, unless the tick is over 5 s old", "slow routers", 0),
    Guard("near", "a tick in the future: no lease is looked at later than in 15 s", "a jump", 0),
    Guard("stamp", "what was delivered in the future is stamped anew when it is looked at", "a jump", 0),
)
#: Each of these does the other's work: a grace that a jump back has made longer is cut, or begun anew.
PAIR = frozenset({"clamp", "future"})
ALL = frozenset(guard.name for guard in GUARDS) | PAIR


class Lease(NamedTuple):
    """All moments as Redis TIME sees them now: how long ago (it may be negative after a jump back), or in how many seconds."""

    alive: bool = True
    idle: int = 0  # since the last renewal
    renews: int = RENEW  # in so many seconds
    down: int = 0  # Redis is away for so long yet
    tick: int = 0  # since the last `due`
    grace: int = 0  # until then
    started: int = 30  # since the last grace began
    visit: int = LEASE  # when `due` looks at it
    due: int = 1  # when a router runs `due`
    trouble: int = 0
    outages: int = 0
    jumps: int = 0
    over: bool = False  # taken over


class Tick(NamedTuple):
    """One thing that happens."""

    name: str
    pace: int
    lease: Lease
    wrong: str = ""


class Setting(NamedTuple):
    """A scenario: how often what goes wrong, and how often a router runs `due`."""

    name: str
    outages: int = 0
    lengths: tuple[int, ...] = ()
    jumps: tuple[int, ...] = ()
    every: int = 1
    caller: bool = False
    guards: frozenset[str] = ALL


SCENARIOS = (
    Setting("an outage", 1, (2, 3, 4, 6, 12, 20)),
    Setting("two outages", 2, (3, 4, 12, 20)),
    Setting("a caller's due", 1, (4, 12, 20), caller=True),
    Setting("a jump", 0, (), (-60, 60)),
    Setting("a jump in a grace", 1, (6,), (-60,)),
    Setting("an outage and a jump", 1, (6, 20), (-60, -20, 20)),
    Setting("slow routers", 1, (4, 12), every=4),
)


class LeaseClock(Model[Lease, Tick]):
    """One lease under one scenario."""

    within = AT_ONCE

    def __init__(self, setting: Setting) -> None:
        off = sorted(ALL - setting.guards)
        self.name = f"lease: {setting.name}" + (f", without {', '.join(off)}" if off else "")
        self.setting = setting
        self.start = Lease(due=setting.every, outages=setting.outages, jumps=int(bool(setting.jumps)))

    def next(self, move: Tick) -> Lease:
        return move.lease

    def wrong_in(self, state: Lease) -> str:
        late = not state.alive and not state.over and state.trouble > LIMIT
        return f"a dead holder's work is not taken over in {LIMIT} s" if late else ""

    def is_over(self, state: Lease) -> bool:
        return state.alive or state.over

    def tell(self, moves: Sequence[Tick]) -> list[str]:
        """Seconds in which the same happens, counted."""
        runs = [(name, len(list(same))) for name, same in groupby(move.name for move in moves)]
        return [name if count == 1 else f"{name} ({count} times)" for name, count in runs]

    def moves(self, state: Lease) -> Iterable[Tick]:
        if state.over:
            return
        if state.alive:
            yield Tick("the holder dies", FAULT, state._replace(alive=False, trouble=0))
        if state.down:
            yield from self._away(state)
            return
        if state.outages:
            for length in self.setting.lengths:
                after = state._replace(down=length, outages=state.outages - 1, trouble=0)
                yield Tick(f"Redis goes away for {length} s", FAULT, after)
        if state.jumps:
            for by in self.setting.jumps:
                yield Tick(f"its clock jumps by {by:+d} s", FAULT, self._jumped(state, by))
        if self.setting.caller and state.tick > 3 and not self._on("caller"):
            after, wrong = self._due(state, caller=True)
            yield Tick("a caller runs due", FAULT, after, wrong)
        yield self._second(state)

    # ---------------------------------------------------------------- time
    def _on(self, guard: str) -> bool:
        return guard in self.setting.guards

    @staticmethod
    def _aged(state: Lease) -> Lease:
        return state._replace(
            idle=min(state.idle + 1, 99),
            tick=min(state.tick + 1, 6),
            grace=max(state.grace - 1, 0),
            started=min(state.started + 1, 30),
            visit=max(state.visit - 1, 0),
            trouble=min(state.trouble + 1, LIMIT + 1),
        )

    def _away(self, state: Lease) -> Iterable[Tick]:
        after = self._aged(state)._replace(down=state.down - 1, trouble=0)
        if after.down:
            yield Tick("1 s, Redis is away", AT_ONCE, after)
            return
        for back in range(BACK + 1) if state.alive else (0,):
            for due in (1, 2):
                text = f"1 s, Redis is back; the holder renews in {back} s, due runs in {due} s"
                yield Tick(text, AT_ONCE, after._replace(renews=back, due=due))

    @staticmethod
    def _jumped(state: Lease, by: int) -> Lease:
        return state._replace(
            idle=min(state.idle + by, 99),
            tick=min(state.tick + by, 6),
            grace=max(state.grace - by, 0),
            started=min(state.started + by, 30),
            visit=max(state.visit - by, 0),
            trouble=0,
            jumps=0,
        )

    def _second(self, state: Lease) -> Tick:
        after = self._aged(state)
        name, wrong = "1 s", ""
        if state.alive:
            after = after._replace(renews=max(state.renews - 1, 0))
            if not after.renews:
                after = after._replace(idle=0, renews=RENEW)
                name += ", the holder renews"
        after = after._replace(due=state.due - 1)
        if after.due <= 0:
            after, wrong = self._due(after)
            after = after._replace(due=self.setting.every)
            name += ", due"
        return Tick(name, AT_ONCE, after, wrong)

    # ---------------------------------------------------------------- due (Lua: ticking, visiting.holding)
    def _due(self, state: Lease, *, caller: bool = False) -> tuple[Lease, str]:
        before = state.grace
        if not caller:
            state = self._ticked(state)
        if state.visit > 0 and not caller:
            return state, ""
        if self._on("stamp") and not caller:
            state = state._replace(idle=max(state.idle, 0))
        grace = state.grace if self._on("first") else before
        if grace > 0 and not caller:
            return state._replace(visit=grace), ""
        if max(state.idle, 0) >= LEASE:
            return state._replace(over=True), "a live holder loses its work" if state.alive else ""
        return state._replace(visit=LEASE - max(state.idle, 0)), ""

    def _ticked(self, state: Lease) -> Lease:
        ahead = state.tick < 0
        grace = min(state.grace, GRACE) if self._on("clamp") else state.grace
        started = state.started
        gap = state.tick > 3 or (ahead and self._on("future"))
        is_free = state.tick > 5 or ahead or state.started >= 30 or state.started < 0 or not self._on("pause")
        if gap and is_free and self._on("grace"):
            grace, started = GRACE, 0
        if ahead and self._on("near"):
            state = state._replace(visit=min(state.visit, LEASE))
        return state._replace(grace=grace, started=started, tick=0)
