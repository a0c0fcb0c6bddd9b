"""Order lines: a few messages of one line, and all that Redis, routers, agents and callers may do to them. The words of `ledger`.

What the record of one message goes through in all detail is told there; here a router decides and applies in one step, and what matters is
who stands first. Promises: no two of a line run at once (but for a fenced run), nobody passes whoever was routed before him, everybody has
one terminal receipt, in time. Left out is what docs/reliability.md leaves out: who comes for the first time when the line has been lost
may run beside the old one.
"""

from collections.abc import Iterable, Iterator

from tests.model.explorer import Model
from tests.model.line_desk import (
    ALL,
    BY_NAME,
    CANCELLED,
    DONE,
    EXPIRED,
    GUARDS,
    HELD,
    MARK,
    MAX_ATTEMPTS,
    NEW,
    OPEN,
    PARKED,
    PASSED,
    QUEUED,
    RETURNED,
    RUNNING,
    SCENARIOS,
    WAITING,
    Desk,
    Happening,
    Message,
    Queue,
    Setting,
)
from tests.model.partition import AT_ONCE, AT_TOTAL, BY_DUE, FAULT

__all__ = ["ALL", "BY_NAME", "GUARDS", "SCENARIOS", "Lines", "Setting"]


class Lines(Model[Queue, Happening]):
    """The line under one scenario."""

    def __init__(self, setting: Setting) -> None:
        off = sorted(ALL - setting.guards)
        self.name = f"{setting.name}, {setting.faults} faults" + (f", without {', '.join(off)}" if off else "")
        self.setting, self.within = setting, setting.within
        self.start = Queue((Message(),) * setting.messages, faults=setting.faults)
        self.made: set[tuple[str, str]] = set()

    def next(self, move: Happening) -> Queue:
        """Hands are numbered anew, in the order in which they are mentioned."""
        queue = move.queue
        self.made.update(move.made)
        names = {0: 0}
        for hand in [*(message.hand for message in queue.messages), *(hand for _, hand in queue.agains)]:
            names.setdefault(hand, len(names))
        return queue._replace(
            messages=tuple(message._replace(hand=names[message.hand]) for message in queue.messages),
            agains=tuple(sorted((i, names[hand]) for i, hand in queue.agains)),
            hands=len(names),
        )

    def wrong_in(self, state: Queue) -> str:
        ended = any(i >= 0 and state.messages[i].answered and state.messages[i].state not in OPEN for i in state.line)
        return "one that has ended stands in its line" if ended else ""

    def is_over(self, state: Queue) -> bool:
        """Who is new and is not on its way was forgotten with its record: nobody waits for it."""
        return all((message.answered or message.state == NEW) and not message.sends for message in state.messages)

    def moves(self, state: Queue) -> Iterable[Happening]:
        for i, message in enumerate(state.messages):
            yield from self._routed(state, i, message)
            yield from self._run(state, i, message)
            yield from self._timed(state, i, message)
            yield from self._spoilt(state, i, message)
        for entry in state.agains:
            yield from self._asked(state, *entry)
        yield from self._lost(state)

    # ---------------------------------------------------------------- who may do what
    def _open(self, state: Queue) -> Desk:
        return Desk(self.setting, state)

    def _may(self, state: Queue, kind: str) -> Iterator[Desk]:
        if state.faults > 0 and kind in self.setting.kinds:
            yield self._open(state).fault()

    # ---------------------------------------------------------------- routers
    def _routed(self, state: Queue, i: int, message: Message) -> Iterator[Happening]:
        if not message.sends:
            return
        if message.state != NEW or message.tomb:
            desk = self._open(state)
            desk.note(i, sends=message.sends - 1)
            if not desk.on("line duplicate"):
                desk.line.append(i)
            if message.state == NEW:
                desk.note(i, tomb=False)
                if desk.on("line duplicate"):
                    desk.end(i, DONE)
                else:
                    desk.note(i, state=DONE, answered=True)
                yield desk.done(f"route: {i} meets its tombstone", AT_ONCE)
            else:
                yield desk.done(f"route: {i} is a duplicate", AT_ONCE)
            return
        for desk in self._may(state, "not before"):
            desk.note(i, sends=message.sends - 1)
            desk.become(i, WAITING)
            yield desk.done(f"route: {i}, not before a moment", FAULT)
        for kind, delay in (("", False), ("full", True)):
            for desk in self._may(state, kind) if kind else [self._open(state)]:
                desk.note(i, sends=message.sends - 1)
                desk.hand_over(i, delay=delay)
                text = f"route: {i}, every inbox is full" if delay else f"route: {i}"
                yield desk.done(f"{text}: {desk.messages[i].state}", FAULT if kind else AT_ONCE)

    def _asked(self, state: Queue, i: int, hand: int) -> Iterator[Happening]:
        """An again is routed, lost, doubled."""
        message = state.messages[i]
        for kind in ("full", "nobody offers it"):
            if (message.state, message.hand, state.line[:1]) != (HELD, hand, (i,)):
                break
            for desk in self._may(state, kind):
                desk.agains.remove((i, hand))
                desk.become(i, WAITING) if kind == "full" else desk.end(i, DONE)
                yield desk.done(f"route again ({i}, #{hand}): {kind}: {desk.messages[i].state}", FAULT)
        for delay in (False, True):
            desk = self._open(state)
            desk.agains.remove((i, hand))
            asks = message.state == RETURNED or (message.state == WAITING and message.over)
            asks = asks or (message.state == HELD and (desk.first() == i or not desk.on("line head")))
            if not asks or (message.hand != hand and desk.on("line fence")):
                yield desk.done(f"route again ({i}, #{hand}): silence", AT_ONCE)
                break
            if message.hand != hand:
                desk.blame("an again of an older hand is acted on")
            if message.state == RETURNED and message.attempt >= MAX_ATTEMPTS:
                desk.end(i, DONE)
                yield desk.done(f"route again ({i}, #{hand}): no attempt is left", AT_ONCE)
                break
            if delay and not (message.state == RETURNED and message.attempt and "back-off" in self.setting.kinds):
                break
            desk.hand_over(i, delay=delay)
            text = "waits" if delay else "goes on"
            yield desk.done(f"route again ({i}, #{hand}): {text}: {desk.messages[i].state}", AT_ONCE)
        for desk in self._may(state, "again lost"):
            desk.agains.remove((i, hand))
            yield desk.done(f"again ({i}, #{hand}) is lost", FAULT)
        for desk in self._may(state, "again doubled"):
            desk.agains.append((i, hand))
            yield desk.done(f"again ({i}, #{hand}) is doubled", FAULT)

    # ---------------------------------------------------------------- agents
    def _run(self, state: Queue, i: int, message: Message) -> Iterator[Happening]:
        if message.state == QUEUED:
            desk = self._open(state)
            if any(other.state == RUNNING for other in state.messages):
                desk.blame("two of a line run at once")
            if state.order and state.order[0] != i:
                desk.blame("one is handed over before one that was routed before it")
            desk.become(i, RUNNING)
            yield desk.done(f"an agent takes {i}", AT_ONCE)
        if message.state == RUNNING:
            desk = self._open(state)
            desk.end(i, DONE)
            yield desk.done(f"{i} is answered", AT_ONCE)
            for desk in self._may(state, "retryable"):
                desk.back(i)
                yield desk.done(f"{i} ends retryable", FAULT)
            for desk in self._may(state, "parks"):
                desk.become(i, PARKED)
                yield desk.done(f"{i} parks", FAULT)
            for desk in self._may(state, "holder dies"):
                desk.back(i, fenced=1)
                yield desk.done(f"{i} loses its holder", FAULT)
        if message.state == PARKED:
            desk = self._open(state)
            desk.back(i, burn=False)
            yield desk.done(f"{i} gets its answer", AT_ONCE)
        if message.fenced:
            desk = self._open(state)
            desk.note(i, fenced=message.fenced - 1)
            yield desk.done(f"a fenced run of {i} settles: stale", AT_ONCE)

    # ---------------------------------------------------------------- due
    def _timed(self, state: Queue, i: int, message: Message) -> Iterator[Happening]:
        if message.state not in OPEN:
            return
        desk = self._open(state)
        desk.end(i, EXPIRED)
        yield desk.done(f"due: the total of {i} is over", AT_TOTAL)
        if message.state in {HELD, RETURNED} and "line rearm" not in self.setting.guards:
            return
        desk = self._open(state)
        may_ask = desk.mend(i)
        if message.state == WAITING:
            desk.note(i, over=True)
        if message.state in {HELD, RETURNED, WAITING} and may_ask:
            desk.again(i)
        happening = desk.done(f"due: looks at {i} ({message.state})", BY_DUE)
        if happening.queue != state:
            yield happening

    # ---------------------------------------------------------------- faults
    def _spoilt(self, state: Queue, i: int, message: Message) -> Iterator[Happening]:
        if message.state in OPEN:
            for desk in self._may(state, "cancel"):
                desk.end(i, CANCELLED)
                yield desk.done(f"{i} is cancelled ({message.state})", FAULT)
            for desk in self._may(state, "record lost") if state.order is not None else ():
                desk.lose_record(i, again=True)
                yield desk.done(f"the record of {i} is lost ({message.state}), it is sent again", FAULT)
            for desk in self._may(state, "record forgotten"):
                desk.lose_record(i, again=False)
                yield desk.done(f"the record of {i} is lost ({message.state})", FAULT)
            for desk in self._may(state, "doubled in line"):
                desk.line.append(i)
                yield desk.done(f"somebody puts {i} into the line once more", FAULT)
        elif message.sends and not message.answered and not message.tomb:
            for desk in self._may(state, "cancel"):
                desk.note(i, tomb=True)
                yield desk.done(f"{i} is cancelled before it is routed", FAULT)
        for desk in self._may(state, "XADD doubled"):
            desk.note(i, sends=message.sends + 1)
            yield desk.done(f"{i} is sent once more", FAULT)
        for hand in sorted({0, message.hand}):
            for desk in self._may(state, "again forged"):
                desk.agains.append((i, hand))
                yield desk.done(f"again ({i}, #{hand}) is forged", FAULT)

    def _lost(self, state: Queue) -> Iterator[Happening]:
        if state.line and not any(message.sends and message.state == NEW for message in state.messages):
            for desk in self._may(state, "line lost"):
                desk.line, desk.order = [], None
                yield desk.done("the line is lost", FAULT)
        may_run = [i for i, message in enumerate(state.messages) if message.state in {QUEUED, RUNNING}]
        if MARK in state.line and all(
            i in state.line for i in may_run
        ):  # due has looked at each of them within a lease
            desk = self._open(state)
            desk.line = [PASSED if each == MARK else each for each in desk.line]
            yield desk.done("17 s pass", BY_DUE)
