"""The guards of the steps. Each is a switch: without it the explorer must find a way to break a promise (test_guards asserts it)."""

from typing import NamedTuple


class Guard(NamedTuple):
    """What a step checks. `case`: the scenario that shows what happens without it, with so many faults."""

    name: str
    what: str
    case: str
    faults: int


GUARDS = (
    # the doors
    Guard("xack", "route applies an entry only if its XACK returned 1", "doors", 2),
    Guard("claim", "an entry that a dead router has left pending is claimed by its idle time", "doors", 1),
    Guard("reread", "a router reads its own pending entries again after a lost connection", "lost replies", 1),
    Guard("quiet", "an again that asks for nothing is answered with silence", "agains", 2),
    Guard("again hand", "an again acts only with the leg's present hand", "agains", 2),
    Guard("seen", "a decision names the state and attempt that it was made for", "agains", 2),
    Guard("not due", "a waiting leg goes on only when its wait is over", "agains", 3),
    Guard("fingerprint", "a msg_id with other content or another sender is a conflict", "duplicates", 1),
    Guard("boxes", "a record has room for a bounded number of callers", "duplicates", 2),
    Guard("pcall", "a mailbox of the wrong type stops nothing", "keys lost", 1),
    Guard("nomkstream", "route writes into inboxes that are open, and makes none", "broadcast gone", 1),
    Guard(
        "room",
        "route looks for the inbox before it acknowledges: what cannot be placed stays pending",
        "inbox removed",
        1,
    ),
    Guard("window", "a record outlives every duplicate", "window", 2),
    Guard("keep", "what comes back keeps its bytes in env", "agents", 1),
    # moves
    Guard("undelivered", "a move looks whether the entry is still undelivered", "moves", 2),
    Guard("move deletes", "a move deletes the old entry", "moves", 1),
    Guard("new hand", "a move makes the new entry's id the hand", "moves", 1),
    Guard("two moves", "at most two moves in an attempt", "moves", 3),
    # agents
    Guard("hand", "settle must carry the leg's hand", "agents", 1),
    Guard("instance", "settle must come from the instance that took it", "lost tail", 2),
    Guard("take", "take hands over only what the ledger has queued with this hand", "groups lost", 1),
    Guard("leave", "take leaves the entry of a leg that runs elsewhere: its group was made anew", "groups lost", 2),
    Guard(
        "adopt",
        "what take reads anew and the instance holds already goes on, and is not given to it twice",
        "lost tail",
        2,
    ),
    Guard("renewer", "renew asks to whom the entry is pending: it keeps nobody else's lease", "lost tail", 3),
    Guard("take late", "take hands over nothing past its ttl or total", "expiry", 1),
    Guard("settle late", "a result past total ends the leg as `due` would", "expiry", 1),
    Guard("repeat", "the same result again, by the one that gave it, is done", "agents", 1),
    Guard("resume", "after a lost connection take gives again what is pending to this instance", "lost replies", 1),
    Guard("held", "but not what it says that it holds", "agents", 1),
    Guard("lease", "an entry is taken from its holder only when it has not renewed for 15 s", "inbox removed", 1),
    # an answer that is not sure enough
    Guard("best", "the best answer survives every end but a cancel", "best", 1),
    Guard("cancelled best", "a cancel ends also what has an answer", "best", 2),
    Guard("better", "of two answers the better one is told", "best", 2),
    Guard("second", "one other run is asked for a better answer, however it ends", "best", 2),
    Guard("another", "whoever was not sure is not asked again", "best", 1),
    # a question
    Guard("parked", "a leg that waits for an answer takes no result", "questions", 2),
    Guard("question", "an answer names the hand that has asked", "questions", 3),
    # due
    Guard("reclaim", "due gives back what nobody renews", "agents", 1),
    Guard("rearm", "due puts the again once more", "agains", 2),
    Guard("gone", "due gives back what is in no inbox any more", "keys lost", 1),
    Guard("grace", "after an outage no lease ends for 15 s", "outage", 1),
    Guard("caller", "a caller's due ends no lease", "outage", 1),
    Guard("callers due", "a caller ends its own message when nobody else does", "due lost", 1),
    # cancel and rounds
    Guard("tombstone", "a cancel that comes first leaves a tombstone", "cancel", 1),
    Guard(
        "tomb sender", "a tombstone is its sender's: a stranger's neither cancels a message nor saves it", "cancel", 1
    ),
    Guard("tomb round", "a tombstone answers its round and lower ones", "rounds", 2),
    Guard("cancel round", "a cancel does nothing to a greater round", "rounds", 2),
    Guard(
        "cancel ahead", "a cancel of a round that has not come yet is kept in the record of a lower one", "rounds", 3
    ),
    Guard("sender", "only the sender may cancel", "cancel", 1),
    # what is recorded
    Guard("untold", "an end that no caller of the step is told of is told to the routers", "cancel", 1),
    Guard("told", "an end that the caller of the step records is told to nobody else", "agents", 0),
    Guard("hint", "a hint proves nothing: its holder asks by a renewal before it gives up a run", "cancel", 1),
    Guard("greater", "only a greater round opens again", "rounds", 3),
    Guard("retryable", "only what ended retryable is opened again", "rounds", 1),
    Guard("fresh", "a leg that is opened again has a fresh token as hand", "waiting rounds", 4),
)
ALL = frozenset(guard.name for guard in GUARDS)
