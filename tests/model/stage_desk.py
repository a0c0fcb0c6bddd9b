"""What a broadcast in stages is, and the steps on it, which run on a working copy (Lua: staging, releasing, observing)."""

from collections.abc import Iterable
from typing import Any, NamedTuple, Self

from reach.delivery.states import TRANSITIONS
from reach.envelope.ledger import LegState
from tests.model.guards import Guard

NEW, HELD, QUEUED, RUNNING = (each.value for each in (LegState.NEW, LegState.HELD, LegState.QUEUED, LegState.RUNNING))
RETURNED, WAITING, OBSERVED = LegState.RETURNED.value, LegState.WAITING.value, LegState.OBSERVED.value
DONE, CANCELLED, EXPIRED = LegState.DONE.value, LegState.CANCELLED.value, LegState.EXPIRED.value
OPEN = frozenset({HELD, QUEUED, RUNNING, RETURNED, WAITING})
ALLOWED = frozenset((before.value, after.value) for before, later in TRANSITIONS.items() for after in later)
MAX_ATTEMPTS = 2

GUARDS = (
    Guard(
        "stage check", "route hands a held leg over only where the stages before its own are over and well", "agains", 1
    ),
    Guard("stage call", "whoever ends the last leg of a stage calls the next", "runs", 0),
    Guard("stage rearm", "due looks again at who was called", "agains", 1),
    Guard("stage failed", "a stage that fails ends those behind it in the same step", "runs", 1),
    Guard("stage count", "a leg that ends without a success is counted", "runs", 1),
    Guard("stage empty", "a stage that nobody is in has failed when it is reached", "empty", 0),
    Guard("stage still", "a cancel and the end of total call nobody", "runs", 1),
    Guard("stage once", "of those behind a stage that has failed only open ones end", "rounds, gone past", 6),
    Guard("stage round", "a new round counts anew", "rounds", 3),
    Guard(
        "stage hopeless", "a new round opens nothing behind a stage that has failed for good", "rounds, gone past", 4
    ),
    Guard("stage observe", "who only observes has no receipt", "runs", 1),
)
ALL = frozenset(guard.name for guard in GUARDS)


class Leg(NamedTuple):
    """`code`: ok, failed, retryable, stage, total, cancelled, lost, ttl. `called`: due looks at it. `receipts`: in this round."""

    state: str = NEW
    hand: int = 0
    attempt: int = 0
    code: str = ""
    called: bool = False
    receipts: int = 0


class Crew(NamedTuple):
    """Everything. `counts`: for each stage how many legs are open, and how many ended without a success, as the head says."""

    legs: tuple[Leg, ...]
    counts: tuple[tuple[int, int], ...]
    agains: tuple[tuple[int, int], ...] = ()
    sends: int = 1
    faults: int = 0
    hands: int = 1
    past_total: bool = False
    goes_on: bool = False

    @classmethod
    def of(cls, setting: "Setting") -> "Crew":
        legs = (Leg(),) * (sum(setting.sizes) + 1)
        return cls(legs, tuple((size, 0) for size in setting.sizes), faults=setting.faults, goes_on=setting.goes_on)


class Happening(NamedTuple):
    """One thing that happens."""

    name: str
    pace: int
    crew: Crew
    wrong: str = ""
    made: tuple[tuple[str, str], ...] = ()  # transitions


class Setting(NamedTuple):
    """A scenario: what may go wrong, at most `faults` times. `sizes`: of the stages; one more leg only observes."""

    name: str
    sizes: tuple[int, ...]
    kinds: frozenset[str]
    faults: int
    goes_on: bool = False
    guards: frozenset[str] = ALL


def _kinds(text: str) -> frozenset[str]:
    return frozenset(kind.strip() for kind in text.split(","))


_ROUNDS = _kinds("retryable, rejects, again doubled, new round, cancel")
SCENARIOS = (
    Setting("runs", (2, 2), _kinds("rejects, retryable, holder dies, cancel, XADD doubled, inbox closed, ttl"), 3),
    Setting("agains", (2, 2), _kinds("gone, full, again lost, again doubled, again forged, cancel"), 3),
    Setting("empty", (1, 0, 2), _kinds("rejects, gone, again lost, cancel"), 2),
    Setting(
        "gone past",
        (1, 0, 2, 1),
        _kinds("rejects, gone, again lost, again doubled, cancel, retryable"),
        3,
        goes_on=True,
    ),
    Setting("rounds", (2, 1), _ROUNDS, 4),
    Setting("rounds, gone past", (1, 1, 1), _ROUNDS | {"policy changes"}, 4, goes_on=True),
)
BY_NAME = {setting.name: setting for setting in SCENARIOS}


class Table:
    """A working copy of a broadcast, on which the steps run."""

    def __init__(self, setting: Setting, crew: Crew) -> None:
        self.setting, self.goes_on = setting, crew.goes_on
        self.legs, self.agains = list(crew.legs), list(crew.agains)
        self.counts = list(crew.counts)
        self.sends, self.faults, self.hands, self.past_total = crew.sends, crew.faults, crew.hands, crew.past_total
        self.still = ""  # why nobody is called any more in this step
        self.wrong = ""
        self.made: list[tuple[str, str]] = []

    def on(self, guard: str) -> bool:
        return guard in self.setting.guards

    def fault(self, count: int) -> Self:
        self.faults -= count
        return self

    def blame(self, what: str) -> None:
        self.wrong = self.wrong or what

    def done(self, name: str, pace: int) -> Happening:
        crew = Crew(
            tuple(self.legs),
            tuple(self.counts),
            tuple(sorted(self.agains)[:6]),
            self.sends,
            self.faults,
            self.hands,
            self.past_total,
            self.goes_on,
        )
        return Happening(name, pace, crew, self.wrong, tuple(self.made))

    # ---------------------------------------------------------------- stages
    def stage_of(self, n: int) -> int:
        """As many as there are stages: who only observes."""
        for k in range(len(self.setting.sizes)):
            if n in self.legs_of(k):
                return k
        return len(self.setting.sizes)

    def legs_of(self, k: int) -> range:
        start = sum(self.setting.sizes[:k])
        return range(start, start + self.setting.sizes[k])

    def has_failed(self, k: int) -> bool:
        empty = not self.setting.sizes[k] and self.on("stage empty")
        return empty or self.counts[k][1] > 0

    def is_free(self, k: int) -> bool:
        """By the counts of the head."""
        return all(self.counts[j][0] <= 0 and (self.goes_on or not self.has_failed(j)) for j in range(k))

    def is_well(self, k: int) -> bool:
        """In truth: whether it may begin."""
        before = [self.legs[n] for j in range(k) for n in self.legs_of(j)]
        empty = any(not size for size in self.setting.sizes[:k])
        return all(leg.state not in OPEN and leg.state != NEW for leg in before) and (
            self.goes_on or (not empty and all(leg.code == "ok" for leg in before))
        )

    def first_held(self, k: int) -> int | None:
        return next((n for n in self.legs_of(k) if self.legs[n].state == HELD), None)

    # ---------------------------------------------------------------- one leg
    def become(self, n: int, state: str, **more: Any) -> None:
        before = self.legs[n].state
        if (before, state) not in ALLOWED:
            self.blame(f"a leg goes from {before} to {state}")
        self.made.append((before, state))
        self.legs[n] = self.legs[n]._replace(state=state, **more)

    def again(self, n: int) -> None:
        if self.still:
            self.blame(f"somebody is called for what is {self.still}")
        self.agains.append((n, self.legs[n].hand))

    def hand_over(self, n: int, found: str = "") -> None:
        """`found`: gone or full is the inbox."""
        if found == "gone":
            self.end(n, DONE, "lost")
        elif found == "full":
            self.become(n, WAITING)
        else:
            self.become(n, QUEUED, hand=self.hands)
            self.hands += 1

    def take(self, n: int) -> None:
        if not self.is_well(self.stage_of(n)):
            self.blame("a stage begins before those before it are over and well")
        self.become(n, RUNNING)

    def back(self, n: int, *, burn: bool) -> None:
        self.become(n, RETURNED, attempt=self.legs[n].attempt + burn)
        self.again(n)

    def end(self, n: int, state: str, code: str) -> None:
        """The one function that closes a leg."""
        leg = self.legs[n]
        if leg.receipts:
            self.blame("a leg has two terminal receipts in a round")
        if leg.state in OPEN or leg.state == NEW:
            self.become(n, state, code=code, receipts=1)
        k = self.stage_of(n)
        left, failed = self.counts[k]
        self.counts[k] = (left - 1, failed + (code != "ok" and self.on("stage count")))
        self.step_on(k)

    def step_on(self, k: int) -> None:
        """A leg of this stage has ended."""
        if (self.still and self.on("stage still")) or self.still == "failed":
            return
        if any(left > 0 for left, _ in self.counts[: k + 1]):
            return
        while k < len(self.counts):
            if self.counts[k][0] > 0:
                n = self.first_held(k)
                if n is not None and self.on("stage call"):
                    self.legs[n] = self.legs[n]._replace(called=True)
                    self.again(n)
                return
            if self.has_failed(k) and not self.goes_on:
                if self.on("stage failed"):
                    self.end_behind(k)
                return
            if not self.setting.sizes[k] and not self.on("stage empty") and not self.goes_on:
                return
            k += 1

    def end_behind(self, k: int) -> None:
        if self.still:
            self.blame(f"who is {self.still} hears that an earlier stage has failed")
        if self.is_well(k + 1):
            self.blame("a stage that is over and well is told to have failed")
        was, self.still = self.still, "failed"
        for j in range(k + 1, len(self.counts)):
            for n in self.legs_of(j):
                if self.legs[n].state in OPEN or self.legs[n].state == NEW or not self.on("stage once"):
                    self.end(n, DONE, "stage")
        self.still = was or "failed"

    # ---------------------------------------------------------------- route
    def fan_out(self, opened: Iterable[int], first: str, others: str) -> None:
        """Begin legs: those of a stage that is free are handed over, who only observes ends, and the rest is held."""
        found = first
        for n in opened:
            k = self.stage_of(n)
            if self.legs[n].state != NEW:
                continue  # ended with a stage before its own
            if k == len(self.counts):
                self.become(n, OBSERVED)
            elif self.is_free(k):
                self.hand_over(n, found)
                found = others
            else:
                self.become(n, HELD)

    def release(self, k: int, first: str, others: str) -> None:
        found = first
        for n in self.legs_of(k):
            if self.legs[n].state == HELD:
                self.hand_over(n, found)
                found = others

    def repeat(self) -> None:
        """A caller that comes late hears the receipts of those that have ended."""
        if any(leg.state == OBSERVED for leg in self.legs) and not self.on("stage observe"):
            self.blame("who only observes has a receipt")

    def reopen(self, *, goes_on: bool) -> None:
        """A new round: what ended retryable, and what stood behind it. `goes_on`: as the policy says now."""
        self.goes_on = goes_on
        opened = [n for n, leg in enumerate(self.legs) if leg.code in {"retryable", "stage"}]
        for n in opened:
            self.legs[n] = Leg(hand=self.hands)
            self.hands += 1
        if self.on("stage round"):
            for k in range(len(self.counts)):
                legs = [self.legs[n] for n in self.legs_of(k)]
                closed = [leg for leg in legs if leg.state != NEW]
                self.counts[k] = (len(legs) - len(closed), sum(leg.code != "ok" for leg in closed))
        self.fan_out(opened, "", "")
        if self.on("stage hopeless"):
            self.end_hopeless()

    def end_hopeless(self) -> None:
        """What was opened behind a stage that has failed for good, where the policy does not go on any more."""
        for k in range(len(self.counts)):
            if self.counts[k][0] > 0 or self.still:
                return
            if self.has_failed(k) and not self.goes_on:
                self.end_behind(k)
                return
