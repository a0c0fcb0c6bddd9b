"""What a line and its messages are, and the steps on it, which run on a working copy (Lua: lining, holding)."""

from typing import Any, NamedTuple, Self

from reach.delivery.states import TRANSITIONS
from reach.envelope.ledger import LegState
from tests.model.guards import Guard
from tests.model.partition import AT_ONCE, BY_DUE

NEW, HELD, QUEUED, RUNNING = (each.value for each in (LegState.NEW, LegState.HELD, LegState.QUEUED, LegState.RUNNING))
RETURNED, WAITING, PARKED = LegState.RETURNED.value, LegState.WAITING.value, LegState.PARKED.value
DONE, CANCELLED, EXPIRED = LegState.DONE.value, LegState.CANCELLED.value, LegState.EXPIRED.value
OPEN = frozenset({HELD, QUEUED, RUNNING, RETURNED, WAITING, PARKED})
ALLOWED = frozenset((before.value, after.value) for before, later in TRANSITIONS.items() for after in later)
#: in a line: nobody passes it; its moment is over (not -1, which has the hash of -2)
MARK, PASSED = -2, -3
MAX_ATTEMPTS = 2

GUARDS = (
    Guard("line head", "every hand-over looks who stands first in the line", "lines", 0),
    Guard("line next", "whoever ends the first calls the next", "lines", 0),
    Guard("line duplicate", "a duplicate, or a send that meets its tombstone, does not touch the line", "lines", 1),
    Guard("line rearm", "due looks again and again at who is held, or came back", "lines + retries", 1),
    Guard("line fence", "an again acts only with the leg's present hand", "lines + retries", 2),
    Guard("line drop", "who has no open record is dropped when he is the first", "line lost", 1),
    Guard("line once", "a message joins only where it does not stand already", "line lost", 1),
    Guard("line remove", "who ends is removed however often he stands there", "lines", 1),
    Guard(
        "line rejoin", "who is open and in no line is put back: in front where he may run, else behind", "line lost", 1
    ),
    Guard("line quiet", "nobody passes who was put back behind for longer than a lease", "line lost", 1),
)
ALL = frozenset(guard.name for guard in GUARDS)


class Message(NamedTuple):
    """One message: its one leg, and what its sender and its handlers know."""

    state: str = NEW
    hand: int = 0
    attempt: int = 0
    joined: bool = False
    over: bool = False  # a waiting one whose wait is over
    sends: int = 1  # entries of it in ingress
    tomb: bool = False  # cancelled before it came
    answered: bool = False
    fenced: int = 0  # runs that go on, and whose results nobody takes


class Queue(NamedTuple):
    """Everything. `order`: who was routed when, of those that are open; None once the line was lost: nothing is promised then."""

    messages: tuple[Message, ...]
    line: tuple[int, ...] = ()
    agains: tuple[tuple[int, int], ...] = ()
    order: tuple[int, ...] | None = ()
    faults: int = 0
    hands: int = 1


class Happening(NamedTuple):
    """One thing that happens."""

    name: str
    pace: int
    queue: Queue
    wrong: str = ""
    made: tuple[tuple[str, str], ...] = ()  # transitions


class Setting(NamedTuple):
    """A scenario: what may go wrong, at most `faults` times."""

    name: str
    kinds: frozenset[str]
    faults: int
    within: int
    messages: int = 2
    guards: frozenset[str] = ALL


def _kinds(text: str) -> frozenset[str]:
    return frozenset(kind.strip() for kind in text.split(","))


SCENARIOS = (
    Setting("lines", _kinds("cancel, XADD doubled, retryable, parks, doubled in line"), 3, AT_ONCE),
    Setting(
        "lines + retries",
        _kinds(
            "retryable, back-off, holder dies, again lost, again doubled, again forged, cancel, full, nobody offers it, not before"
        ),
        3,
        BY_DUE,
    ),
    Setting(
        "line lost",
        _kinds("line lost, record lost, record forgotten, holder dies, retryable, parks, cancel"),
        3,
        BY_DUE,
    ),
    Setting(
        "three in a line", _kinds("line lost, record lost, holder dies, again lost, cancel"), 2, BY_DUE, messages=3
    ),
)
BY_NAME = {setting.name: setting for setting in SCENARIOS}


class Desk:
    """A working copy of a queue, on which the steps run (Lua: lining, holding)."""

    def __init__(self, setting: Setting, queue: Queue) -> None:
        self.setting = setting
        self.messages, self.line, self.agains = list(queue.messages), list(queue.line), list(queue.agains)
        self.order = list(queue.order) if queue.order is not None else None
        self.faults, self.hands = queue.faults, queue.hands
        self.wrong = ""
        self.made: list[tuple[str, str]] = []

    def on(self, guard: str) -> bool:
        return guard in self.setting.guards

    def blame(self, what: str) -> None:
        self.wrong = self.wrong or what

    def fault(self) -> Self:
        self.faults -= 1
        return self

    def note(self, i: int, **fields: Any) -> None:
        self.messages[i] = self.messages[i]._replace(**fields)

    def become(self, i: int, state: str, **fields: Any) -> None:
        if (self.messages[i].state, state) not in ALLOWED:
            self.blame(f"{self.messages[i].state} becomes {state}")
        self.made.append((self.messages[i].state, state))
        self.note(i, state=state, over=False, **fields)

    # ---------------------------------------------------------------- the line
    def first(self) -> int | None:
        return self.line[0] if self.line else None

    def join(self, i: int) -> None:
        if i in self.line and not self.on("line once"):
            self.blame("it stands in its line twice")
        if i not in self.line or not self.on("line once"):
            self.line.append(i)
        self.note(i, joined=True)
        if self.order is not None and i not in self.order:
            self.order.append(i)

    def front(self) -> tuple[int | None, bool]:
        """The first one that is open, and whether somebody was dropped before it."""
        dropped = False
        while self.line:
            head = self.line[0]
            if head == MARK:
                return None, dropped
            if head >= 0 and (self.messages[head].state in OPEN or not self.on("line drop")):
                return head, dropped
            self.line.pop(0)
            dropped = True
            if self.order is not None and head in self.order and head not in self.line:
                self.order.remove(head)
        return None, dropped

    def release(self, i: int | None) -> None:
        if i is not None and self.messages[i].state == HELD:
            self.again(i)

    def again(self, i: int) -> None:
        entry = (i, self.messages[i].hand)
        if entry not in self.agains:  # more of them are the fault `again doubled`
            self.agains.append(entry)

    def end(self, i: int, state: str) -> None:
        """Any step that closes it."""
        if self.messages[i].answered:
            self.blame("two terminal receipts")
        fenced = self.messages[i].fenced + (self.messages[i].state == RUNNING and state != DONE)
        self.become(i, state, answered=True, fenced=fenced)
        if self.order is not None and i in self.order:
            self.order.remove(i)
        was_first = self.first() == i
        if self.on("line remove"):
            self.line = [each for each in self.line if each != i]
        elif i in self.line:
            self.line.remove(i)
        if was_first and self.on("line next"):
            self.release(self.front()[0])

    def mend(self, i: int) -> bool:
        """Put it back where the line has lost it; whether it may ask for a decision."""
        message = self.messages[i]
        if message.joined and i not in self.line and self.on("line rejoin"):
            if message.state in {QUEUED, RUNNING}:
                self.line.insert(0, i)
            else:
                if MARK not in self.line and self.on("line quiet"):
                    self.line.append(MARK)
                self.line.append(i)
        head, dropped = self.front()
        if dropped and head != i:
            self.release(head)
        return message.state != HELD or head == i

    # ---------------------------------------------------------------- hand-overs
    def hand_over(self, i: int, *, delay: bool = False) -> None:
        """Deliver, or delay, unless others stand before it. Who was not to go before a moment joins only now."""
        if not self.messages[i].joined:
            self.join(i)
        if self.on("line head") and self.first() != i:
            self.become(i, HELD)
        elif delay:
            self.become(i, WAITING)
        else:
            self.become(i, QUEUED, hand=self.hands)
            self.hands += 1

    def back(self, i: int, *, burn: bool = True, fenced: int = 0) -> None:
        message = self.messages[i]
        self.become(i, RETURNED, attempt=message.attempt + burn, fenced=message.fenced + fenced)
        self.again(i)

    def lose_record(self, i: int, *, again: bool) -> None:
        """With its inbox entry. `again`: its caller sends again after the reconnect; else nobody asks for it any more."""
        message = self.messages[i]
        self.messages[i] = Message(sends=message.sends + again, fenced=message.fenced + (message.state == RUNNING))

    def done(self, name: str, pace: int) -> Happening:
        order = tuple(self.order) if self.order is not None else None
        queue = Queue(tuple(self.messages), tuple(self.line), tuple(self.agains), order, self.faults, self.hands)
        return Happening(name, pace, queue, self.wrong, tuple(self.made))
