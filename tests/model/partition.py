"""A working copy of the world on which the steps run: what the Lua parts record, closing, giving_back and placing do, in the same words."""

from typing import Any, NamedTuple, Self

from reach.delivery.states import TRANSITIONS
from tests.model.guards import ALL
from tests.model.world import (
    AGAIN,
    CANCELLED,
    DONE,
    EXPIRED,
    INGRESS,
    NEW,
    NOBODY,
    OPEN,
    QUEUED,
    RETURNED,
    RUNNING,
    WAITING,
    Caller,
    Decision,
    Entry,
    Head,
    Leg,
    Letter,
    Plan,
    World,
)

MAX_ATTEMPTS = 2
MAX_MOVES = 2
ALLOWED = frozenset((before.value, after.value) for before, later in TRANSITIONS.items() for after in later)

#: How soon something happens by itself: at once, by a claim (5 s), by a timer of `due` (3 to 15 s), at total.
AT_ONCE, BY_CLAIM, BY_DUE, AT_TOTAL = 0, 1, 2, 3
#: ... or perhaps never: it is a fault, or the choice of somebody outside
FAULT = 9
#: the worth of an end that is no answer of a run
NO_ANSWER = -1


class Send(NamedTuple):
    """What a caller puts into ingress."""

    sender: int = 0
    content: int = 0
    round: int = 1


class Setting(NamedTuple):
    """One scenario: who is there, and what may go wrong at most `faults` times."""

    name: str
    what: str
    kinds: frozenset[str]
    faults: int
    sends: tuple[Send, ...] = (Send(),)
    broadcast: bool = False
    large: bool = False  # a broadcast whose entries carry no bytes
    agents: int = 1
    instances: int = 2  # per agent
    boxes: int = 2  # callers that a record has room for: four in the protocol
    within: int = BY_DUE  # everything must be able to end this soon, so nothing that takes longer happens
    guards: frozenset[str] = ALL

    @property
    def wants(self) -> bool:
        """Whether its senders want more confidence than some answers have."""
        return not self.kinds.isdisjoint({"unsure", "guess"})

    @property
    def legs(self) -> int:
        return self.agents if self.broadcast else 1


class Aborted(Exception):
    """A script failed half-way: what it has written stays, its record is not saved."""


class Partition:
    """The world, while one thing happens in it. `wrong`: the first promise that was broken."""

    def __init__(self, setting: Setting, world: World) -> None:
        self.setting = setting
        self.before = world
        self.head = world.head
        self.legs = list(world.legs)
        self.env, self.armed, self.spoilt = world.env, world.armed, world.spoilt
        self.doors = list(world.doors)
        self.inbox = list(world.inbox)
        self.gone = list(world.gone)
        self.callers = list(world.callers)
        self.ended = list(world.ended)
        self.cancelled, self.stored = world.cancelled, world.stored
        self.orphans = list(world.orphans)
        self.works = list(world.works)
        self.answers = list(world.answers)
        self.time, self.grace, self.lost_bytes, self.faults = world.time, world.grace, world.lost_bytes, world.faults
        self.kept = world.kept
        self.hands, self.instances = world.hands, world.instances
        self.wrong = ""
        self.made: list[tuple[str, str]] = []
        self.untold: list[int] = []  # legs of whose end an entry of `receipts` tells

    def after(self) -> World:
        """What has become of it."""
        return World(
            self.head,
            tuple(self.legs),
            self.env,
            self.armed,
            tuple(self.doors),
            tuple(self.inbox),
            tuple(self.gone),
            tuple(self.callers),
            tuple(self.ended),
            self.cancelled,
            self.stored,
            self.spoilt,
            tuple(self.orphans),
            tuple(self.works),
            tuple(self.answers),
            self.time,
            self.grace,
            self.lost_bytes,
            self.faults,
            self.kept,
            self.hands,
            self.instances,
        )

    def on(self, guard: str) -> bool:
        return guard in self.setting.guards

    def blame(self, what: str) -> None:
        """A promise is broken."""
        self.wrong = self.wrong or what

    def fault(self) -> Self:
        self.faults -= 1
        return self

    # ---------------------------------------------------------------- reading
    def leg(self, n: int) -> Leg | None:
        """The leg, if there is a record that has it; tombstones have none."""
        there = self.head is not None and n < len(self.legs)
        return self.legs[n] if there else None

    def letter(self, leg: Leg) -> Letter | None:
        """The leg's own inbox entry."""
        for letter in self.inbox:
            if letter.hand == leg.hand and letter.agent == leg.agent:
                return letter
        return None

    def has_bytes(self, leg: Leg) -> bool:
        if self.env:
            return True
        letter = self.letter(leg)
        return letter is not None and letter.body

    def fresh_hand(self) -> int:
        self.hands += 1
        return self.hands - 1

    # ---------------------------------------------------------------- writing
    def become(self, n: int, state: str, **changes: Any) -> None:
        """The only way in which a leg changes its state."""
        before = self.legs[n]
        self.made.append((before.state, state))
        if (before.state, state) not in ALLOWED:
            self.blame(f"a leg goes from {before.state} to {state}: that is not in the table")
        self.legs[n] = before._replace(state=state, **changes)

    def note(self, n: int, **changes: Any) -> None:
        """Change a leg that stays in its state."""
        self.legs[n] = self.legs[n]._replace(**changes)

    def drop(self, hand: int, agent: int) -> None:
        """XACK and XDEL of an inbox entry."""
        self.inbox = [letter for letter in self.inbox if letter.hand != hand or letter.agent != agent]

    def post(self, box: int, legs: int) -> None:
        """XADD into a mailbox, by pcall."""
        if self.spoilt and box == 0:
            if self.on("pcall"):
                return
            raise Aborted
        caller = self.callers[box]
        self.callers[box] = Caller(caller.sent, caller.heard | legs)

    def refuse(self, box: int) -> None:
        """A receipt that ends the wait of one caller: conflict, overloaded."""
        self.post(box, (1 << self.setting.legs) - 1)

    def receipt(self, box: int, n: int) -> None:
        """A leg's terminal receipt, for one caller."""
        told, head = self.setting.sends[box], self.head
        assert head is not None
        if (told.sender, told.content) != (head.sender, head.content):
            self.blame("somebody is shown the receipt of another one's message")
        self.post(box, 1 << n)

    def close(
        self,
        n: int,
        state: str,
        *,
        retryable: bool = False,
        settled: bool = False,
        worth: int = NO_ANSWER,
        told: bool = False,
    ) -> None:
        """End a leg: entry, receipts, and at the last leg `due` and env. `worth`: of the answer that a run has just given.

        `told`: whoever has called the step is told of this end, and records it.
        """
        leg, head = self.legs[n], self.head
        assert head is not None
        state, retryable, by = self._standing(leg, state, retryable, worth)
        if leg.state in {QUEUED, RUNNING}:
            self.drop(leg.hand, leg.agent)
        # Who still runs it learns it by its next renewal.
        self.works = [w._replace(over=True) if (w.leg, w.hand) == (n, leg.hand) else w for w in self.works]
        self.become(n, state, settled=settled, retryable=retryable, best=-1, worth=-1, asked=False, by=by)
        self.ended[n] += 1
        if self.ended[n] > 1:
            self.blame("two terminal receipts for one leg in one round")
        if not any(leg.state in OPEN or leg.state == NEW for leg in self.legs):
            self.armed = self.env = False
        for box in head.boxes:
            self.receipt(box, n)
        self._tell(n, told=told)

    def _tell(self, n: int, *, told: bool) -> None:
        """Each end is recorded once: by who is told of it, else by a router that an entry asks to."""
        if not told and self.on("untold"):
            self.untold.append(n)
        elif not told:
            self.blame("an end that nobody records")
        elif not self.on("told"):
            self.untold.append(n)
            self.blame("an end is recorded twice")

    def _standing(self, leg: Leg, state: str, retryable: bool, worth: int) -> tuple[str, bool, int]:
        """What a leg ends with, and whose answer that is: the best one survives every end but a cancel."""
        if leg.best < 0:
            return state, retryable, -1
        if state == CANCELLED and self.on("cancelled best"):
            return state, retryable, -1
        if worth == NO_ANSWER and state != CANCELLED and not self.on("best"):
            self.blame("a failure is told although there is an answer")
            return state, retryable, -1
        if worth >= leg.worth or (worth != NO_ANSWER and not self.on("better")):
            if worth < leg.worth:
                self.blame("the worse of two answers is told")
            return state, retryable, -1
        if state == CANCELLED:
            self.blame("what was cancelled is answered")
        return DONE, False, leg.best

    def keep(self, n: int, worth: int) -> None:
        """Keep an answer that is not sure enough, and ask somebody else."""
        best = self.legs[n].agent
        self.back(n, burn=True)
        self.note(n, settled=True, best=best, worth=worth, asked=False)

    def lose(self, n: int, *, told: bool = False) -> None:
        """End a leg as backend.unavailable: its bytes are nowhere. `told`: to the caller, if that ends it with its best answer."""
        if not self.lost_bytes:
            self.blame("the bytes are lost, and nobody has deleted them")
        self.close(n, EXPIRED, retryable=True, told=told and self.legs[n].best >= 0)

    def back(self, n: int, *, burn: bool, told: bool = False) -> bool:
        """Give a leg back for a new decision. False: it has ended. `told`: to the caller, where that is with its best answer."""
        leg = self.legs[n]
        if leg.best >= 0 and (burn or leg.state == RUNNING) and self.on("second"):
            self.close(n, DONE, retryable=True, told=told)
            return False
        if not self.has_bytes(leg):
            self.lose(n, told=told)
            return False
        self.env = self.env or self.on("keep")
        self.drop(leg.hand, leg.agent)
        if burn:
            self.become(n, RETURNED, attempt=leg.attempt + 1, moves=0)
        else:
            self.become(n, RETURNED)
        self.again(n)
        self.armed = True
        return True

    def again(self, n: int) -> None:
        self.doors.append(Entry(AGAIN, (n, self.legs[n].hand)))

    def place(self, n: int, plan: Plan) -> None:
        """Carry out deliver, delay or finish. Whoever calls has looked for obstacles."""
        if plan.act == "deliver":
            if self.gone[plan.agent]:
                self.note(n, agent=plan.agent)
                if self.on("nomkstream"):
                    self.close(n, DONE, retryable=True)
                    return
                self.blame("an entry lies in an inbox that nobody has opened")
            if self.legs[n].asked:
                self.blame("more than one other run is asked for a better answer")
            hand = self.fresh_hand()
            self.inbox.append(Letter(hand, n, plan.agent, NOBODY, not self.setting.large))
            self.become(n, QUEUED, agent=plan.agent, hand=hand, settled=False, instance=NOBODY, over=False)
            self.armed = True
        elif plan.act == "delay":
            self.become(n, WAITING, over=False)
            self.env = self.armed = True
        else:
            self.close(n, DONE, retryable=True, settled=self.legs[n].settled, told=True)

    def obstacle(self, plan: Plan) -> str:
        """Why a plan cannot be carried out; looked at before anything is written."""
        return "gone" if plan.act in {"deliver", "move"} and self.gone[plan.agent] else ""

    # ---------------------------------------------------------------- the doors
    def take_out(self, entry: Entry, but: Decision | None = None) -> None:
        """XACK and XDEL: decisions that other routers hold about it (all but this one) are about nothing from now on."""
        self.doors.remove(entry)
        held = list(entry.held)
        if but is not None:
            held.remove(but)
        self.orphans += held

    def put(self, entry: Entry, reader: int, held: tuple[Decision, ...]) -> None:
        """Change who reads an entry, and what was decided about it."""
        self.doors.remove(entry)
        self.doors.append(Entry(entry.door, entry.about, reader, tuple(sorted(held))))

    def submit(self, caller: int) -> None:
        """XADD to ingress."""
        self.doors.append(Entry(INGRESS, (caller,)))
        old = self.callers[caller]
        self.callers[caller] = Caller(old.sent + 1, old.heard)

    def restore(self, head: Head | None, legs: tuple[Leg, ...], ended: tuple[int, ...]) -> None:
        """The record as it was before a script that failed."""
        self.head, self.legs, self.ended = head, list(legs), list(ended)
