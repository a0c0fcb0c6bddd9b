"""What bounds a sender and an agent: the share of an inbox, and the bucket of a rate limit. What `ledger` says nothing about.

Promises: no sender has more than half of an inbox, and none is refused for ever by a count that is wrong; in no minute is more handed over
than the limit and what was saved up, and who asks gets its turn whatever the clock does.
"""

from collections.abc import Iterable
from typing import NamedTuple

from tests.model.explorer import Model
from tests.model.guards import Guard
from tests.model.partition import AT_ONCE, FAULT

HALF, OTHERS, SLOTS, FAULTS = 2, 1, 2, 2
#: messages a minute, and the seconds of a minute (a short one)
LIMIT, MINUTE = 2, 4
EACH = MINUTE // LIMIT

GUARDS = (
    Guard("share", "a sender with half of an inbox is refused, others are not", "share", 0),
    Guard("counted out", "what leaves `queued` counts no more", "share", 0),
    Guard("floor", "a count never falls below nothing", "share", 0),
    Guard("found out", "a count that says more than lies there goes", "share", 0),
    Guard("brim", "a bucket holds no more than a minute's worth", "rate", 0),
    Guard("stepped", "after a step back of the clock a bucket counts from now", "rate", 0),
    Guard("given back", "a hand-over that came to nothing costs nothing", "rate", 0),
)
ALL = frozenset(guard.name for guard in GUARDS)


class Inbox(NamedTuple):
    """One sender's part of an inbox: as it is, and as it is counted."""

    mine: int = 0
    told: int = 0
    others: int = 0
    running: int = 0
    faults: int = FAULTS
    drained: bool = True  # nothing of mine was queued since the last fault, or there was none


class Happens(NamedTuple):
    """One thing that happens to it."""

    name: str
    pace: int
    inbox: Inbox
    wrong: str = ""


class Share(Model[Inbox, Happens]):
    """An inbox with room for twice HALF, a sender and the others."""

    within = AT_ONCE

    def __init__(self, guards: frozenset[str] = ALL) -> None:
        self.guards, self.start = guards, Inbox()
        self.name = "share" + "".join(f", without {off}" for off in sorted(ALL - guards))

    def next(self, move: Happens) -> Inbox:
        return move.inbox

    def wrong_in(self, state: Inbox) -> str:
        return "one sender has more than half of an inbox" if state.drained and state.mine > HALF else ""

    def is_over(self, state: Inbox) -> bool:
        return True

    def moves(self, state: Inbox) -> Iterable[Happens]:
        if state.mine <= 2 * HALF:
            yield self._sent(state)
        if state.mine and state.running < SLOTS:
            drained = state.drained or state.mine == 1
            after = state._replace(mine=state.mine - 1, running=state.running + 1, drained=drained)
            yield Happens("one of mine is taken", AT_ONCE, self._less(after))
        if state.others < OTHERS:
            yield Happens("another sends", AT_ONCE, state._replace(others=state.others + 1))
        elif state.running < SLOTS:
            yield Happens("another's is taken", AT_ONCE, state._replace(others=0, running=state.running + 1))
        if state.running:
            yield Happens("a run ends", AT_ONCE, state._replace(running=state.running - 1))
        if state.faults:
            fault = state._replace(faults=state.faults - 1)
            yield Happens("the count is lost", FAULT, fault._replace(told=0, drained=not state.mine))
            if state.mine:
                left = state.mine - 1
                passed = fault._replace(mine=left, drained=state.drained or not left)
                yield Happens("a record is lost, its entry is passed over", FAULT, passed)

    def _sent(self, state: Inbox) -> Happens:
        told = state.told
        if told >= HALF and "share" in self.guards:
            lying = state.mine + state.others + state.running
            if told + state.others <= lying or "found out" not in self.guards:
                wrong = "refused below its share" if state.faults == FAULTS and state.mine < HALF else ""
                wrong = "refused by a count of nothing" if not lying else wrong
                return Happens("mine is refused", AT_ONCE, state, wrong)
            told, state = 0, state._replace(drained=not state.mine)  # it begins anew, as if it had been lost
        return Happens("mine gets in", AT_ONCE, state._replace(mine=state.mine + 1, told=told + 1))

    def _less(self, state: Inbox) -> Inbox:
        if "counted out" not in self.guards:
            return state
        told = state.told - 1
        return state._replace(told=max(told, 0) if "floor" in self.guards else told)


class Bucket(NamedTuple):
    """A bucket, in what flows back in a second (a message costs EACH), and what is true of it."""

    level: int = LIMIT * EACH
    ahead: int = 0  # the moment that it was looked at lies so far ahead of the clock
    given: tuple[int, ...] = ()  # how long ago messages were handed over, within the minute
    waited: int = 0  # how long somebody has asked in vain
    jumps: int = 1
    idle: int = 2 * MINUTE  # seconds in which nobody needs to ask, yet


class Passes(NamedTuple):
    """One thing that happens to a bucket."""

    name: str
    pace: int
    bucket: Bucket
    wrong: str = ""


class Rate(Model[Bucket, Passes]):
    """The bucket of an agent, with somebody who always asks."""

    within = AT_ONCE

    def __init__(self, guards: frozenset[str] = ALL) -> None:
        self.guards, self.start = guards, Bucket()
        self.name = "rate" + "".join(f", without {off}" for off in sorted(ALL - guards))

    def next(self, move: Passes) -> Bucket:
        return move.bucket

    def wrong_in(self, state: Bucket) -> str:
        if len(state.given) > 2 * LIMIT:
            return "more in a minute than the limit and what was saved up"
        return "who asks does not get its turn" if state.waited > MINUTE else ""

    def is_over(self, state: Bucket) -> bool:
        return True

    def moves(self, state: Bucket) -> Iterable[Passes]:
        if state.level >= EACH:
            paid = state._replace(level=state.level - EACH, waited=0)
            yield Passes("one is handed over", AT_ONCE, paid._replace(given=(*state.given, 0)))
            back = min(paid.level + EACH, LIMIT * EACH) if "given back" in self.guards else paid.level
            waited = state.waited  # it still has not got what it asks for, which is nobody's fault but the full inbox's
            yield Passes("one is paid, and its inbox is full", FAULT, paid._replace(level=back, waited=waited))
        else:
            yield self._second(state, waited=state.waited + 1)
        if state.idle:
            yield self._second(state._replace(idle=state.idle - 1), waited=state.waited if state.level < EACH else 0)
        if state.jumps:
            at = 0 if "stepped" in self.guards else 2 * MINUTE
            yield Passes("the clock steps back", FAULT, state._replace(jumps=0, ahead=at))

    def _second(self, state: Bucket, *, waited: int) -> Passes:
        given = tuple(age + 1 for age in state.given if age + 1 < MINUTE)
        level = state.level + (0 if state.ahead else 1)
        if "brim" in self.guards:
            level = min(level, LIMIT * EACH)
        after = state._replace(level=level, ahead=max(state.ahead - 1, 0), given=given, waited=waited)
        return Passes("a second", AT_ONCE, after)
