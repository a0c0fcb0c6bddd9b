"""Who waits for room at an agent. What `ledger` says nothing about.

Promises: nobody takes room that is needed for those who are older and wait; where there is room, nobody who could have it sleeps, unless
somebody else is about to take it. All in one queue; that a wake is lost (a key, an `again`) is made good by a moment, and no part of this.
"""

from collections.abc import Iterable
from typing import Literal, NamedTuple

from tests.model.explorer import Model
from tests.model.guards import Guard
from tests.model.partition import AT_ONCE, FAULT

FEW, MANY, SENT, ELSEWHERE, LOOKS = 1, 3, 5, 2, 2

GUARDS = (
    Guard("behind who waits", "who comes new, or stands behind, counts those before it as if they lay there", "", 0),
    Guard("room told", "a slot that is free again is told to one who waits", "", 0),
    Guard("told once", "room is told to one that has been told of none yet", "", 0),
    Guard("room looked for", "who begins to wait looks whether room has come since it was refused", "", 0),
    Guard("room passed on", "who was told of room and does not take it leaves it to the next", "", 0),
    Guard("room for those before", "who finds room that is needed for those before it tells one of them", "", 0),
    Guard("room left", "who takes room tells the next one of what is left", "", 0),
)
ALL = frozenset(guard.name for guard in GUARDS)

Doing = Literal["sleeps", "decides", "is refused"]


class Waiter(NamedTuple):
    """One that waits. told: room was told to it, which it has neither taken nor left."""

    doing: Doing = "sleeps"
    told: bool = False


class Room(NamedTuple):
    """An agent's inbox, and its queue, the oldest first.

    refused: new ones that are about to wait. unheard: it has more slots than before, which nobody has seen yet.
    """

    lying: int = 0
    queue: tuple[Waiter, ...] = ()
    refused: int = 0
    sent: int = SENT
    elsewhere: int = ELSEWHERE
    looks: int = LOOKS
    slots: int = FEW
    unheard: bool = False


class Happens(NamedTuple):
    """One thing that happens."""

    name: str
    pace: int
    room: Room
    wrong: str = ""


class Rooms(Model[Room, Happens]):
    """One agent, those who come and those who wait."""

    within = AT_ONCE

    def __init__(self, guards: frozenset[str] = ALL) -> None:
        self.guards, self.start = guards, Room()
        self.name = "rooms" + "".join(f", without {off}" for off in sorted(ALL - guards))

    def next(self, move: Happens) -> Room:
        return move.room

    def wrong_in(self, state: Room) -> str:
        is_quiet = not state.refused and all(waiter.doing == "sleeps" for waiter in state.queue)
        has_room = state.lying < state.slots and not state.unheard
        return "there is room, and who waits for it sleeps" if is_quiet and state.queue and has_room else ""

    def is_over(self, state: Room) -> bool:
        return True

    def moves(self, state: Room) -> Iterable[Happens]:
        if state.sent:
            yield self._comes(state._replace(sent=state.sent - 1))
        if state.refused:
            yield self._begins_to_wait(state._replace(refused=state.refused - 1))
        if state.lying:
            freed = state._replace(lying=state.lying - 1)
            yield Happens("a run ends", AT_ONCE, self._told(freed) if "room told" in self.guards else freed)
        if state.slots == FEW:
            raised = state._replace(slots=MANY, unheard=bool(state.queue))
            yield Happens("more instances join", AT_ONCE, raised)
        for rank, waiter in enumerate(state.queue):
            yield from self._of_one(state, rank, waiter)

    def _of_one(self, state: Room, rank: int, waiter: Waiter) -> Iterable[Happens]:
        who = f"number {rank} in the queue"
        if waiter.doing == "sleeps":
            if state.looks:
                looks = state._replace(looks=state.looks - 1)
                yield Happens(f"{who} looks again", FAULT, self._set(looks, rank, waiter._replace(doing="decides")))
        elif waiter.doing == "decides":
            yield self._decides(state, rank, waiter)
        else:
            yield Happens(f"{who} waits again", AT_ONCE, self._wait(state, rank))
        if state.elsewhere:
            gone = self._without(state._replace(elsewhere=state.elsewhere - 1), rank)
            passes_on = waiter.told and "room passed on" in self.guards
            yield Happens(f"{who} goes elsewhere, or is cancelled", FAULT, self._told(gone) if passes_on else gone)

    def _comes(self, state: Room) -> Happens:
        before = len(state.queue) if "behind who waits" in self.guards else 0
        if state.lying + before >= state.slots:
            return Happens("a new one is refused", AT_ONCE, state._replace(refused=state.refused + 1))
        wrong = "a new one takes the room of who waits" if state.lying + len(state.queue) >= state.slots else ""
        return Happens("a new one is handed over", AT_ONCE, state._replace(lying=state.lying + 1), wrong)

    def _begins_to_wait(self, state: Room) -> Happens:
        queued = state._replace(queue=(*state.queue, Waiter()), unheard=False)
        return Happens("one that was refused waits", AT_ONCE, self._wait(queued, len(state.queue)))

    def _wait(self, state: Room, rank: int) -> Room:
        state = state._replace(unheard=False)
        has_room = state.lying + rank < state.slots and "room looked for" in self.guards
        if "room for those before" in self.guards:
            state = self._told(state, max(min(state.slots - state.lying, rank), 0))
        return self._set(state, rank, Waiter("decides", True) if has_room else Waiter())

    def _decides(self, state: Room, rank: int, waiter: Waiter) -> Happens:
        who = f"number {rank} in the queue"
        before = rank if "behind who waits" in self.guards else 0
        if state.lying + before >= state.slots:
            return Happens(f"{who} is refused", AT_ONCE, self._set(state, rank, waiter._replace(doing="is refused")))
        handed = self._without(state._replace(lying=state.lying + 1, unheard=False), rank)
        wrong = "one takes the room of who waits before it" if state.lying + rank >= state.slots else ""
        left = state.slots - handed.lying
        after = self._told(handed, left) if left and "room left" in self.guards else handed
        return Happens(f"{who} is handed over", AT_ONCE, after, wrong)

    def _told(self, state: Room, most: int = SENT) -> Room:
        """The first that has been told of none; without the guard, the first one that sleeps."""
        for rank, waiter in enumerate(state.queue[:most]):
            if "told once" in self.guards and not waiter.told:
                doing: Doing = "decides" if waiter.doing == "sleeps" else waiter.doing
                return self._set(state, rank, Waiter(doing, True))
            if "told once" not in self.guards and waiter.doing == "sleeps":
                return self._set(state, rank, Waiter("decides", True))
        return state

    @staticmethod
    def _set(state: Room, rank: int, waiter: Waiter) -> Room:
        return state._replace(queue=(*state.queue[:rank], waiter, *state.queue[rank + 1 :]))

    @staticmethod
    def _without(state: Room, rank: int) -> Room:
        return state._replace(queue=(*state.queue[:rank], *state.queue[rank + 1 :]))
