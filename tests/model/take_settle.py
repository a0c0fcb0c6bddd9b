"""The agent's steps: take (Lua: take, offering), settle, renew; and close_inbox, which takes an agent's work from it."""

from tests.model.partition import NO_ANSWER, Partition
from tests.model.world import (
    DEAD,
    DONE,
    EXPIRED,
    FRESH,
    GUESS,
    HANDED_BACK,
    NOBODY,
    PARKED,
    PLAIN,
    QUEUED,
    RETURNED,
    RUNNING,
    TICK_OLD,
    TOTAL_OVER,
    UNSURE,
    WORTH,
    Leg,
    Letter,
    Work,
)

STALE, UNKNOWN = "stale", "unknown"


# ---------------------------------------------------------------------- take
def take(p: Partition, letter: Letter, instance: int, *, resumed: bool, reply: bool) -> str:
    """Offer one entry to an instance, by XREADGROUP or `resumed` from what is pending to it. `reply` False: it never hears of it."""
    leg = p.leg(letter.leg)
    named = leg is not None and leg.hand == letter.hand
    mine = (
        named
        and leg is not None
        and (leg.state == QUEUED or (resumed and leg.state == RUNNING and leg.instance == instance))
    )
    if leg is not None and not p.on("take"):
        mine = True
    if leg is None or not mine:
        if named and leg is not None and leg.state == RUNNING and p.on("leave"):
            pass_on(p, letter, leg.instance)
            return "runs elsewhere, given back"
        p.drop(letter.hand, letter.agent)
        return "not its hand, deleted"
    late = p.time == TOTAL_OVER or (p.time != FRESH and not leg.handed)
    if late and p.on("take late"):
        p.drop(letter.hand, letter.agent)
        p.close(letter.leg, EXPIRED, retryable=True)
        return "expired"
    if not (letter.body or p.env):
        p.drop(letter.hand, letter.agent)
        p.lose(letter.leg)
        return "bytes lost"
    held = [work for work in p.works if (work.hand, work.instance) == (letter.hand, instance)]
    if held and not resumed and p.on("adopt"):
        reply = False
        p.works = [work._replace(over=False) if work in held else work for work in p.works]
    else:
        if held:
            p.blame("an instance is given what it has already")
        _start(p, letter, leg, late=late)
    if leg.state == QUEUED:
        p.become(letter.leg, RUNNING, instance=instance, handed=True, asked=leg.best >= 0)
    else:
        p.note(letter.leg, instance=instance, handed=True)
    pass_on(p, letter, instance)
    if reply:
        p.works.append(Work(letter.leg, letter.hand, letter.agent, instance))
    return "runs"


def plain_read(p: Partition, letter: Letter) -> None:
    """XREADGROUP by an agent without scripts: the ledger still has the leg as queued."""
    leg = p.leg(letter.leg)
    if leg is not None:
        _start(p, letter, leg, late=False)
        if leg.hand == letter.hand:
            p.note(letter.leg, asked=leg.best >= 0)
    pass_on(p, letter, PLAIN)
    p.works.append(Work(letter.leg, letter.hand, letter.agent, PLAIN))


def pass_on(p: Partition, letter: Letter, instance: int) -> None:
    """From now it is pending to this instance (XCLAIM)."""
    p.inbox.remove(letter)
    p.inbox.append(letter._replace(instance=instance))


def renew(p: Partition, work: Work) -> bool:
    """Keep its lease; False: its entry is gone, or pending to another one: the handler is cancelled."""
    p.works.remove(work)
    for letter in p.inbox:
        if (letter.hand, letter.agent) == (work.hand, work.agent):
            if letter.instance == NOBODY:  # its lane has lost its group: the ledger knows who runs it
                leg = p.leg(work.leg)
                if leg is None or (leg.state, leg.hand, leg.instance) != (RUNNING, work.hand, work.instance):
                    return False
            elif work.instance not in {letter.instance, PLAIN}:
                if p.on("renewer"):
                    return False
                if letter.instance == DEAD:
                    p.blame("somebody else keeps the lease of a dead holder, and nobody takes its work over")
            pass_on(p, letter, work.instance)
            leg = p.leg(work.leg)
            known = leg is not None and leg.hand == work.hand and leg.instance in {work.instance, NOBODY}
            p.works.append(work._replace(over=work.over and not known))
            return True
    return False


def _start(p: Partition, letter: Letter, leg: Leg, *, late: bool) -> None:
    """What must hold at the moment in which a handler starts."""
    n = letter.leg
    if p.ended[n]:
        p.blame("a handler starts after the terminal receipt")
    if p.head is not None and p.head.sender == 0 and p.cancelled >= p.head.round:
        p.blame("a handler starts after an accepted cancel")
    if any(work.leg == n and work.lives for work in p.works):
        p.blame("two live holders at once")
    if late:
        p.blame("a message is handed over after its expiry")
    if leg.best == letter.agent:
        p.blame("the agent that was not sure is asked again")


# ---------------------------------------------------------------------- park
def park(p: Partition, about: tuple[int, int, int], instance: int) -> str:
    """Give the leg up until it is answered. `about`: leg, hand, agent."""
    n, hand, agent = about
    leg = p.leg(n)
    if leg is None or leg.hand != hand or leg.agent != agent:
        p.drop(hand, agent)
        return STALE if leg is not None else UNKNOWN
    mine = instance == leg.instance
    if not ((leg.state == RUNNING and mine) or leg.state == QUEUED):
        return "done" if leg.question == hand and mine else STALE
    if leg.state == QUEUED:
        p.become(n, RUNNING, instance=instance, handed=True)
    if p.time == TOTAL_OVER:
        p.close(n, EXPIRED, retryable=True)
        return STALE
    if not p.has_bytes(p.legs[n]):
        p.lose(n)
        return STALE
    p.env = p.env or p.on("keep")
    p.drop(hand, agent)
    p.become(n, PARKED, question=hand, settled=False, asked=False)  # a second opinion that asks has not ended
    p.armed = True
    p.answers.append((n, hand))
    return "done"


def answer(p: Partition, n: int, hand: int) -> str:
    """Its sender answers."""
    leg = p.leg(n)
    if leg is None or leg.state != PARKED or (leg.hand != hand and p.on("question")):
        return STALE
    if leg.hand != hand:
        p.blame("an old answer is taken for another question")
    p.become(n, RETURNED)
    p.again(n)
    return "done"


# ---------------------------------------------------------------------- settle
def settle(p: Partition, about: tuple[int, int, int], instance: int, outcome: int) -> str:
    """Write a result. `about`: leg, hand, agent; `instance` NOBODY: applied by a router for a plain reader."""
    n, hand, agent = about
    leg = p.leg(n)
    if leg is None:
        p.drop(hand, agent)
        return UNKNOWN
    if (leg.hand != hand and p.on("hand")) or leg.agent != agent:
        p.drop(hand, agent)
        return STALE
    mine = instance in {NOBODY, leg.instance} or not p.on("instance")
    asks = leg.state == PARKED and not p.on("parked")
    if asks:
        p.blame("a result is taken while its question is open")
    if not ((leg.state == RUNNING and mine) or leg.state == QUEUED or asks):
        return "done" if leg.settled and mine and p.on("repeat") else STALE
    if leg.hand != hand:
        p.blame("the result of an older hand is accepted")
    if any(w.leg == n and w.hand == leg.hand and w.lives and w.instance != (instance or PLAIN) for w in p.works):
        p.blame("a result is accepted that is not the live holder's")
    if leg.state == QUEUED:
        letter = p.letter(leg)
        p.note(n, instance=instance or (letter.instance if letter else NOBODY), handed=True)
    if p.time == TOTAL_OVER:
        if p.on("settle late"):
            p.close(n, EXPIRED, retryable=True)
            return STALE
        p.blame("a result is accepted after total")
    _conclude(p, n, outcome)
    return "done"


def _conclude(p: Partition, n: int, outcome: int) -> None:
    """What follows from an answer: an end, or one more run."""
    leg, worth = p.legs[n], WORTH.get(outcome, NO_ANSWER)
    is_first = leg.best < 0 or not p.on("second")
    if worth == NO_ANSWER and is_first:
        if p.back(n, burn=outcome != HANDED_BACK):
            p.note(n, settled=True)
    elif outcome in {UNSURE, GUESS} and is_first and not p.setting.broadcast and p.has_bytes(leg):
        p.keep(n, worth)
    else:
        p.close(n, DONE, settled=True, retryable=worth == NO_ANSWER, worth=worth, told=True)


# ---------------------------------------------------------------------- leases
def lease_over(p: Partition, letter: Letter) -> bool:
    """Whether nobody has renewed a pending entry for 15 s: its process is dead, has stopped, or does not know that it has it."""
    if letter.instance == NOBODY:
        return False
    return all(work.over for work in p.works if (work.hand, work.agent) == (letter.hand, letter.agent))


def outage_over(p: Partition, letter: Letter) -> bool:
    """Whether an outage makes it look so: nobody could renew."""
    return p.grace == TICK_OLD and letter.instance != NOBODY


def robbed(p: Partition, letter: Letter) -> None:
    """A pending entry is taken from its holder."""
    for k, work in enumerate(p.works):
        if (work.hand, work.agent) == (letter.hand, letter.agent):
            if not work.over:
                p.blame("a live holder loses its work")
            p.works[k] = work._replace(over=True)


# ---------------------------------------------------------------------- close_inbox
def close_inbox(p: Partition, agent: int) -> str:
    """Move what nobody reads or renews to the internal door; delete the lanes when nothing is pending."""
    for letter in [x for x in p.inbox if x.agent == agent]:
        pending = letter.instance != NOBODY
        if pending and not lease_over(p, letter) and p.on("lease"):
            continue
        robbed(p, letter)
        leg = p.leg(letter.leg)
        if leg is not None and leg.hand == letter.hand and leg.state in {QUEUED, RUNNING}:
            p.back(letter.leg, burn=pending)
        p.drop(letter.hand, agent)
    if any(x.agent == agent for x in p.inbox):
        return "something is pending"
    p.gone[agent] = True
    return "gone"
