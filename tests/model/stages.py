"""The stages of a broadcast (process_order), and all that Redis, routers, agents and callers may do to them. The words of `ledger`.

What one leg goes through in all detail is told there; here a router decides and applies in one step, and what matters is who begins when.
Promises: no stage begins before those before it are over and well (or its policy goes on), each leg has one terminal receipt in a round,
who only observes has none, nobody is called for what is cancelled or past its total, and everything ends without waiting for the total.
"""

from collections.abc import Iterable, Iterator

from tests.model.explorer import Model
from tests.model.partition import AT_ONCE, AT_TOTAL, BY_DUE, FAULT
from tests.model.stage_desk import (
    ALL,
    BY_NAME,
    CANCELLED,
    DONE,
    EXPIRED,
    GUARDS,
    HELD,
    MAX_ATTEMPTS,
    NEW,
    OPEN,
    QUEUED,
    RETURNED,
    RUNNING,
    SCENARIOS,
    WAITING,
    Crew,
    Happening,
    Setting,
    Table,
)

__all__ = ["ALL", "BY_NAME", "GUARDS", "SCENARIOS", "Setting", "Stages"]


class Stages(Model[Crew, Happening]):
    """One broadcast under one scenario."""

    within = BY_DUE

    def __init__(self, setting: Setting) -> None:
        off = sorted(ALL - setting.guards)
        self.name = f"{setting.name}, {setting.faults} faults" + (f", without {', '.join(off)}" if off else "")
        self.setting = setting
        self.start = Crew.of(setting)
        self.made: set[tuple[str, str]] = set()

    def next(self, move: Happening) -> Crew:
        """Hands are numbered anew, in the order in which they are mentioned."""
        crew = move.crew
        self.made.update(move.made)
        names = {0: 0}
        for hand in [*(leg.hand for leg in crew.legs), *(hand for _, hand in crew.agains)]:
            names.setdefault(hand, len(names))
        return crew._replace(
            legs=tuple(leg._replace(hand=names[leg.hand]) for leg in crew.legs),
            agains=tuple(sorted((n, names[hand]) for n, hand in crew.agains)),
            hands=len(names),
        )

    def wrong_in(self, state: Crew) -> str:
        ended = any(leg.state in {DONE, CANCELLED, EXPIRED} and not leg.receipts for leg in state.legs)
        return "a leg has ended without a receipt" if ended else ""

    def is_over(self, state: Crew) -> bool:
        return not state.sends and all(leg.state not in OPEN and leg.state != NEW for leg in state.legs)

    def moves(self, state: Crew) -> Iterable[Happening]:
        yield from self._routed(state)
        for entry in dict.fromkeys(state.agains):
            yield from self._asked(state, *entry)
        for n, leg in enumerate(state.legs):
            if leg.state in OPEN and not state.past_total:
                yield from self._run(state, n)
                yield from self._looked_at(state, n)
        yield from self._ended(state)
        yield from self._forged(state)

    # ---------------------------------------------------------------- who may do what
    def _open(self, state: Crew) -> Table:
        return Table(self.setting, state)

    def _may(self, state: Crew, kind: str, count: int = 1) -> Iterator[Table]:
        if state.faults >= count and kind in self.setting.kinds:
            yield self._open(state).fault(count)

    def _placings(self, state: Crew) -> Iterator[tuple[Table, str, str]]:
        """What a hand-over of a stage may find: all inboxes there, the first one gone or full, or all gone."""
        yield self._open(state), "", ""
        for kind in ("gone", "full"):
            for table in self._may(state, kind):
                yield table, kind, ""
        for table in self._may(state, "gone", 2):
            yield table, "gone", "gone"

    # ---------------------------------------------------------------- routers
    def _routed(self, state: Crew) -> Iterator[Happening]:
        if not state.sends:
            return
        if state.legs[0].state != NEW:
            table = self._open(state)
            table.sends -= 1
            table.repeat()
            yield table.done("route: a duplicate", AT_ONCE)
            return
        for table, first, others in self._placings(state):
            table.sends -= 1
            table.fan_out(range(len(state.legs)), first, others)
            yield table.done(f"route: first inbox {first or 'there'}, others {others or 'there'}", AT_ONCE)

    def _asked(self, state: Crew, n: int, hand: int) -> Iterator[Happening]:
        """An again is routed, lost, doubled."""
        leg, name = state.legs[n], f"again ({n}, #{hand})"
        asks = leg.hand == hand and not state.past_total
        table = self._open(state)
        table.agains.remove((n, hand))
        if asks and leg.state in {RETURNED, WAITING}:
            if leg.attempt >= MAX_ATTEMPTS:
                table.end(n, DONE, "retryable")
            else:
                table.hand_over(n)
            yield table.done(f"route {name}: {table.legs[n].state}", AT_ONCE)
        elif asks and leg.state == HELD and (table.is_free(table.stage_of(n)) or not table.on("stage check")):
            for other, first, others in self._placings(state):
                other.agains.remove((n, hand))
                other.release(table.stage_of(n), first, others)
                yield other.done(f"route {name}: its stage begins", AT_ONCE)
        else:
            yield table.done(f"route {name}: silence", AT_ONCE)
        for lost in self._may(state, "again lost"):
            lost.agains.remove((n, hand))
            yield lost.done(f"{name} is lost", FAULT)
        for doubled in self._may(state, "again doubled"):
            doubled.agains.append((n, hand))
            yield doubled.done(f"{name} is doubled", FAULT)

    # ---------------------------------------------------------------- agents
    def _run(self, state: Crew, n: int) -> Iterator[Happening]:
        leg = state.legs[n]
        if leg.state == QUEUED:
            table = self._open(state)
            table.take(n)
            yield table.done(f"an agent takes {n}", AT_ONCE)
            for table in self._may(state, "inbox closed"):
                table.back(n, burn=False)
                yield table.done(f"the inbox of {n} is closed", FAULT)
            for table in self._may(state, "ttl"):
                table.end(n, EXPIRED, "ttl")
                yield table.done(f"the ttl of {n} is over", FAULT)
        if leg.state == RUNNING:
            table = self._open(state)
            table.end(n, DONE, "ok")
            yield table.done(f"{n} is answered", AT_ONCE)
            for table in self._may(state, "rejects"):
                table.end(n, DONE, "failed")
                yield table.done(f"{n} is rejected", FAULT)
            for kind in ("retryable", "holder dies"):
                for table in self._may(state, kind):
                    table.back(n, burn=True)
                    yield table.done(f"{n}: {kind}", FAULT)

    # ---------------------------------------------------------------- due, callers
    def _looked_at(self, state: Crew, n: int) -> Iterator[Happening]:
        leg, table = state.legs[n], self._open(state)
        asks = leg.state in {RETURNED, WAITING}
        if leg.state == HELD and table.on("stage rearm"):
            asks = leg.called and table.is_free(table.stage_of(n)) and n == table.first_held(table.stage_of(n))
        if asks and (n, leg.hand) not in state.agains:
            table.again(n)
            yield table.done(f"due: looks at {n} ({leg.state})", BY_DUE)

    def _ended(self, state: Crew) -> Iterator[Happening]:
        open_legs = [n for n, leg in enumerate(state.legs) if leg.state in OPEN]
        if not open_legs:
            if any(leg.code == "retryable" for leg in state.legs):
                for table in self._may(state, "new round"):
                    table.reopen(goes_on=state.goes_on)
                    yield table.done("route: a new round", FAULT)
                for table in self._may(state, "policy changes"):
                    table.reopen(goes_on=not state.goes_on)
                    yield table.done("route: a new round, under another policy", FAULT)
            return
        for table in self._may(state, "cancel"):
            table.still = "cancelled"
            for n in open_legs:
                table.end(n, CANCELLED, "cancelled")
            yield table.done("cancel", FAULT)
        table = self._open(state)
        table.past_total, table.still = True, "past its total"
        for n in open_legs[:2]:  # 500 in one call
            table.end(n, EXPIRED, "total")
        yield table.done("due: the total is over, one call", AT_ONCE if state.past_total else AT_TOTAL)

    def _forged(self, state: Crew) -> Iterator[Happening]:
        for n, leg in enumerate(state.legs):
            for table in self._may(state, "again forged") if leg.state in OPEN else ():
                table.again(n)
                yield table.done(f"again ({n}, #{leg.hand}) is forged", FAULT)
        for table in self._may(state, "XADD doubled"):
            table.sends += 1
            yield table.done("it is sent once more", FAULT)
