"""All that Redis, routers, agents and callers remember of one message: the state of the model, one tuple.

Small whole numbers stand for what is compared only by equality: a hand (0: never handed over) and an instance (see NOBODY, DEAD, PLAIN;
others are living processes with the SDK). `canonical` gives them the same numbers whenever two worlds differ only in them, so instances
are interchangeable. Routers have no name at all: what matters of one is the decisions that it holds, and those lie with their entry.
"""

from typing import NamedTuple

from reach.envelope.ledger import LegState

NEW, QUEUED, RUNNING = LegState.NEW.value, LegState.QUEUED.value, LegState.RUNNING.value
RETURNED, WAITING, PARKED = LegState.RETURNED.value, LegState.WAITING.value, LegState.PARKED.value
DONE, CANCELLED, EXPIRED = LegState.DONE.value, LegState.CANCELLED.value, LegState.EXPIRED.value
OPEN = frozenset({QUEUED, RUNNING, RETURNED, WAITING, PARKED})

#: nobody (an undelivered entry), a process that has died, an agent that reads by plain XREADGROUP and answers through `receipts`
NOBODY, DEAD, PLAIN = 0, 1, 2
#: an entry of a door: not read yet; pending to a router that lives; pending to one that has died
UNREAD, LIVING, LOST = 0, 1, 2
INGRESS, AGAIN, RECEIPTS = "ingress", "again", "receipts"
#: the moment: before first_at, past it (ttl), past total_at
FRESH, TTL_OVER, TOTAL_OVER = 0, 1, 2
#: no grace, Redis is back and nobody has run `due` yet (the tick is old), grace runs
NO_GRACE, TICK_OLD, GRACE = 0, 1, 2

SUCCESS, RETRYABLE, HANDED_BACK = 1, 2, 3
#: successes that are less sure than their sender wants, the second even less than the first
UNSURE, GUESS = 4, 5
#: no result at all: the run ends with a question
ASKS = 6
#: how sure an answer is, where it is one
WORTH = {SUCCESS: 2, UNSURE: 1, GUESS: 0}


class Leg(NamedTuple):
    """A leg as the ledger has it; `reach.envelope.ledger.Leg` has the same words."""

    state: str = NEW
    agent: int = -1
    hand: int = 0
    attempt: int = 0
    moves: int = 0
    instance: int = NOBODY
    handed: bool = False
    settled: bool = False
    over: bool = False  # a waiting leg whose wait is over
    retryable: bool = False  # it ended so: a greater round may open it again
    best: int = -1  # the agent whose answer is kept while another one is asked
    worth: int = -1  # of that answer
    asked: bool = False  # the other one has been handed it: nothing that is stored, only to see that nobody else is
    question: int = 0  # the hand that has parked it last
    by: int = -1  # the agent whose kept answer has ended it


class Head(NamedTuple):
    """What all legs share. A head without legs holds tombstones."""

    sender: int
    content: int  # what the fingerprint is made of
    round: int
    boxes: tuple[int, ...] = ()  # reply_to: the callers that get the receipts
    tombs: tuple[tuple[int, int], ...] = ()  # (sender, round) of cancels that came before any send
    stopped: int = 0  # the greatest round whose cancel came before its send, when a lower round had ended


class Plan(NamedTuple):
    """What a router has decided for one leg: deliver, move, delay, finish, stay; `agent` of the first two."""

    act: str
    agent: int = -1


class Decision(NamedTuple):
    """A decision in a router's hand: made for the state and attempt that it saw, applied later or never."""

    door: str
    about: tuple[int, ...]
    plans: tuple[Plan, ...] = ()
    state: str = ""
    attempt: int = 0
    round: int = 0  # the record's, only to see what a decision does that was made for an older one


class Entry(NamedTuple):
    """An entry of ingress `(caller)`, again `(leg, hand)` or receipts `(leg, hand, outcome, agent)`, and the decisions made for it."""

    door: str
    about: tuple[int, ...]
    reader: int = UNREAD
    held: tuple[Decision, ...] = ()


class Letter(NamedTuple):
    """An entry of an inbox. `instance`: to whom it is pending, NOBODY: undelivered. `body`: the envelope lies in it, not in env."""

    hand: int
    leg: int
    agent: int
    instance: int = NOBODY
    body: bool = True


class Work(NamedTuple):
    """A run in the memory of a process. `over`: it has not renewed for 15 s (stopped, hung, cut off) and goes on all the same."""

    leg: int
    hand: int
    agent: int
    instance: int
    over: bool = False
    said: int = 0  # the outcome that it has settled with, when the reply was lost

    @property
    def lives(self) -> bool:
        """Whether its handler runs, and nobody can know better."""
        return not self.over and not self.said


class Caller(NamedTuple):
    sent: int = 0  # XADDs to ingress
    heard: int = 0  # a bit per leg whose terminal receipt has come


class World(NamedTuple):
    # in Redis
    head: Head | None
    legs: tuple[Leg, ...]
    env: bool  # env:<msg_id> holds the bytes
    armed: bool  # the message is in `due`
    doors: tuple[Entry, ...]
    inbox: tuple[Letter, ...]
    gone: tuple[bool, ...]  # per agent: it has no inbox
    callers: tuple[Caller, ...]
    ended: tuple[int, ...]  # per leg: terminal receipts made in the leg's round
    cancelled: int  # the greatest round whose cancel was accepted
    stored: int  # how often stored receipts were sent
    spoilt: bool  # the mailbox of caller 0 holds the wrong type
    # in processes
    orphans: tuple[Decision, ...]  # decisions whose entry is gone
    works: tuple[Work, ...]
    answers: tuple[
        tuple[int, int], ...
    ]  # (leg, hand) of questions that a caller knows and has not answered, or will answer once more
    # around them
    time: int
    grace: int
    lost_bytes: bool  # a fault has deleted an inbox or env: an end as backend.unavailable is right from now on
    faults: int  # how many more may happen
    kept: "World | None"  # what survives when the tail is lost
    hands: int  # numbers given out, so that the next one is fresh
    instances: int


Names = tuple[dict[int, int], dict[int, int]]


def names_of(world: World) -> Names:
    """New numbers for hands and instances, in the order in which the world mentions them."""
    hands = {0: 0}
    people = {NOBODY: NOBODY, DEAD: DEAD, PLAIN: PLAIN}
    _collect(world, hands, people)
    return hands, people


def _collect(world: World, hands: dict[int, int], people: dict[int, int]) -> None:
    for leg in world.legs:
        hands.setdefault(leg.hand, len(hands))
        hands.setdefault(leg.question, len(hands))
        people.setdefault(leg.instance, len(people))
    for letter in world.inbox:
        hands.setdefault(letter.hand, len(hands))
        people.setdefault(letter.instance, len(people))
    for work in world.works:
        hands.setdefault(work.hand, len(hands))
        people.setdefault(work.instance, len(people))
    for _, hand in world.answers:
        hands.setdefault(hand, len(hands))
    for entry in world.doors:
        if entry.door != INGRESS:
            hands.setdefault(entry.about[1], len(hands))
    for decision in world.orphans:
        if decision.door != INGRESS:
            hands.setdefault(decision.about[1], len(hands))
    if world.kept is not None:
        _collect(world.kept, hands, people)


def canonical(world: World) -> World:
    """The same world with hands and instances numbered in the order in which it mentions them, and everything sorted."""
    return renamed(world, names_of(world))


def renamed(world: World, names: Names) -> World:
    hands, people = names
    if all(a == b for a, b in hands.items()) and all(a == b for a, b in people.items()):
        return world._replace(
            doors=tuple(sorted(world.doors)),
            inbox=tuple(sorted(world.inbox)),
            works=tuple(sorted(world.works)),
            answers=tuple(sorted(world.answers)),
            orphans=tuple(sorted(world.orphans)),
            hands=len(hands),
            instances=len(people),
        )

    def about(door: str, old: tuple[int, ...]) -> tuple[int, ...]:
        return old if door == INGRESS else (old[0], hands[old[1]], *old[2:])

    def decision(old: Decision) -> Decision:
        return old._replace(about=about(old.door, old.about))

    return world._replace(
        legs=tuple(
            leg._replace(hand=hands[leg.hand], question=hands[leg.question], instance=people[leg.instance])
            for leg in world.legs
        ),
        doors=tuple(
            sorted(Entry(e.door, about(e.door, e.about), e.reader, tuple(map(decision, e.held))) for e in world.doors)
        ),
        inbox=tuple(sorted(x._replace(hand=hands[x.hand], instance=people[x.instance]) for x in world.inbox)),
        orphans=tuple(sorted(map(decision, world.orphans))),
        answers=tuple(sorted((leg, hands[hand]) for leg, hand in world.answers)),
        works=tuple(sorted(w._replace(hand=hands[w.hand], instance=people[w.instance]) for w in world.works)),
        kept=renamed(world.kept, names) if world.kept is not None else None,
        hands=len(hands),
        instances=len(people),
    )
