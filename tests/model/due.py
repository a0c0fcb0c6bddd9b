"""The step `due` (Lua: due, visiting), leg by leg, and `cancel`."""

from tests.model.partition import Aborted, Partition
from tests.model.take_settle import lease_over, outage_over, pass_on, robbed
from tests.model.world import (
    AGAIN,
    CANCELLED,
    EXPIRED,
    FRESH,
    GRACE,
    NO_GRACE,
    NOBODY,
    OPEN,
    QUEUED,
    RETURNED,
    RUNNING,
    TICK_OLD,
    TOTAL_OVER,
    WAITING,
    Head,
    Leg,
)


def total(p: Partition) -> None:
    """Past total: every open leg ends. It is a caller's `due`, who is told nothing of it."""
    head, legs, ended = p.head, tuple(p.legs), tuple(p.ended)
    try:
        for n, leg in enumerate(p.legs):
            if leg.state in OPEN:
                p.close(n, EXPIRED, retryable=True)
    except Aborted:
        p.restore(head, legs, ended)


def ttl(p: Partition, n: int, *, caller: bool) -> str:
    """Past first_at: a leg that nobody was given ends; a plain reader was given it in time."""
    letter = p.letter(p.legs[n])
    if letter is not None and letter.instance != NOBODY and p.legs[n].state == QUEUED:
        p.note(n, handed=True)
        return "a plain reader had it in time"
    p.close(n, EXPIRED, retryable=True, told=not caller)
    return "ttl.expired"


def visit(p: Partition, n: int, *, caller: bool = False) -> str:
    """What is due of one leg before its total; "" when it is nothing. `caller`: a caller's due, which ends total and ttl alone."""
    leg = p.legs[n]
    if p.time != FRESH and not leg.handed:
        return ttl(p, n, caller=caller)
    if caller and p.on("caller"):
        return ""
    if p.grace == TICK_OLD and not caller and p.on("grace"):
        p.grace = GRACE
        return "the tick is old: grace"
    letter = p.letter(leg) if leg.state in {QUEUED, RUNNING} else None
    if letter is not None and letter.instance != NOBODY:
        if p.grace == GRACE or not p.on("reclaim") or not (lease_over(p, letter) or outage_over(p, letter)):
            return ""
        robbed(p, letter)
        return _lost(p, n, burn=True)
    if leg.state in {QUEUED, RUNNING}:
        if letter is None:
            return _lost(p, n, burn=False) if p.on("gone") else ""
        if leg.state == RUNNING:
            pass_on(p, letter, leg.instance)
        if leg.state == RUNNING or p.grace == GRACE:
            return "its group was lost: it is still its holder's" if leg.state == RUNNING else ""
    return _ask(p, n, leg)


def overdue(p: Partition, n: int) -> None:
    """The handler has shown no sign of life for processing_ms; it may go on running."""
    letter = p.letter(p.legs[n])
    if letter is not None:
        p.works = [w._replace(over=True) if w.hand == letter.hand else w for w in p.works]
    _lost(p, n, burn=True)


def _lost(p: Partition, n: int, *, burn: bool) -> str:
    leg = p.legs[n]
    # Where its entry is gone, the holder learns it by its next renewal.
    p.works = [w._replace(over=True) if (w.leg, w.hand) == (n, leg.hand) else w for w in p.works]
    p.note(n, settled=False, handed=leg.handed or burn)
    p.back(n, burn=burn, told=True)
    return "agent.lost, returned" if burn else "its entry is gone, returned"


def _ask(p: Partition, n: int, leg: Leg) -> str:
    """Put an again, unless one for this hand is under way (more of them are the fault `again doubled`)."""
    under_way = any(e.door == AGAIN and e.about == (n, leg.hand) for e in p.doors)
    if leg.state == WAITING and not leg.over:
        p.note(n, over=True)
        if not under_way:
            p.again(n)
        return "its wait is over: again"
    if under_way or (leg.state in {RETURNED, WAITING} and not p.on("rearm")):
        return ""
    if leg.state == QUEUED and p.grace == TICK_OLD:
        p.blame("the time of an outage counts as one in which somebody could have picked it up")
    p.again(n)
    return "again"


def cancel(p: Partition, sender: int, round: int) -> str:
    """End every open leg, or leave a tombstone."""
    head = p.head
    if head is None or head.tombs:
        if p.on("tombstone"):
            tombs = dict(head.tombs if head is not None else ())
            tombs[sender] = max(tombs.get(sender, 0), round)
            p.head = Head(-1, -1, 0, tombs=tuple(sorted(tombs.items())))
        return _accepted(p, sender, round, "tombstone")
    if head.sender != sender and p.on("sender"):
        return "denied"
    if head.round > round and p.on("cancel round"):
        return "newer"
    is_open = any(leg.state in OPEN for leg in p.legs)
    for n, leg in enumerate(p.legs):
        if leg.state in OPEN:
            p.close(n, CANCELLED)
    ahead = _cancel_ahead(p, head, round)
    if not is_open:
        return _accepted(p, sender, round, "tombstone") if ahead else "ended"
    if head.sender != sender:
        p.blame("somebody else cancels a message")
    if head.round > round:
        p.blame("the cancel of an older round ends a message")
    return _accepted(p, sender, round, "cancelled")


def _cancel_ahead(p: Partition, head: Head, round: int) -> bool:
    """The send of a greater round may still be on its way, and would open again what has ended retryable."""
    if round <= head.round or not any(leg.retryable for leg in p.legs):
        return False
    if p.on("cancel ahead"):
        p.head = head._replace(stopped=max(head.stopped, round))
    return True


def _accepted(p: Partition, sender: int, round: int, verdict: str) -> str:
    if sender == 0:
        p.cancelled = max(p.cancelled, round)
    return verdict


def grace_over(p: Partition) -> None:
    """15 s later: whoever lives has renewed."""
    p.grace = NO_GRACE


def alone(p: Partition) -> None:
    """Nobody but `due` lives: total passes, and it ends what is open; a caller's due where the zset has lost the message."""
    p.time = TOTAL_OVER
    if p.armed or p.on("callers due"):
        total(p)
