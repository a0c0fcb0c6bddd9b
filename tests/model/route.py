"""The step `route` (Lua: route, sending, duplicates, deciding_again), and what a router may decide before it."""

from collections.abc import Iterator

from tests.model.partition import MAX_ATTEMPTS, MAX_MOVES, Aborted, Partition, Setting
from tests.model.world import (
    AGAIN,
    DONE,
    FRESH,
    INGRESS,
    NOBODY,
    OPEN,
    QUEUED,
    RETURNED,
    TOTAL_OVER,
    WAITING,
    Decision,
    Entry,
    Head,
    Leg,
    Plan,
    World,
)

DONE_, SKIPPED, GONE, CHANGED, ERROR = "done", "skipped", "gone", "changed", "error"

STAY, DELAY, FINISH = Plan("stay"), Plan("delay"), Plan("finish")


# ---------------------------------------------------------------------- what a router decides, from what it reads
def decisions(setting: Setting, world: World, entry: Entry) -> Iterator[Decision]:
    """All that `decide` could say to an entry; none: silence, the router finishes the entry at once."""
    if entry.door == INGRESS:
        for plans in _send_plans(setting, world, entry.about[0]):
            yield Decision(INGRESS, entry.about, plans)
        return
    n, hand = entry.about[:2]
    leg = world.legs[n] if n < len(world.legs) else None
    if world.head is None or leg is None or leg.state not in {RETURNED, WAITING, QUEUED}:
        return
    if "again hand" in setting.guards and leg.hand != hand:
        return
    if leg.state == WAITING and not leg.over and "not due" in setting.guards:
        return
    for plan in _leg_plans(setting, world, n, leg):
        yield Decision(AGAIN, entry.about, (plan,), leg.state, leg.attempt, world.head.round)


def _send_plans(setting: Setting, world: World, caller: int) -> Iterator[tuple[Plan, ...]]:
    legs = setting.legs
    is_new_round = world.head is not None and setting.sends[caller].round > world.head.round
    if world.time != FRESH and not is_new_round:
        yield (FINISH,) * legs
        return
    if setting.broadcast:
        yield tuple(Plan("deliver", agent) for agent in range(legs))
        if "delay" in setting.kinds:
            yield (*(Plan("deliver", agent) for agent in range(legs - 1)), Plan("delay", legs - 1))
        return
    # Agents of one pattern are alike until one of them is gone: the first choice is the first agent.
    yield from ((Plan("deliver", agent),) for agent in range(setting.agents) if agent == 0 or any(world.gone))
    if "delay" in setting.kinds or all(world.gone):
        yield (DELAY,)


def _leg_plans(setting: Setting, world: World, n: int, leg: Leg) -> Iterator[Plan]:
    agents = [n] if setting.broadcast else list(range(setting.agents))
    others = [agent for agent in agents if agent != leg.best or "another" not in setting.guards]
    if leg.state == QUEUED:
        yield STAY
        if (
            not setting.broadcast
            and world.time != TOTAL_OVER
            and (leg.moves < MAX_MOVES or "two moves" not in setting.guards)
        ):
            yield from (Plan("move", agent) for agent in others if agent != leg.agent)
        return
    late = world.time == TOTAL_OVER or (world.time != FRESH and not leg.handed)
    if late or (leg.state == RETURNED and leg.attempt >= MAX_ATTEMPTS):
        yield FINISH
        return
    if setting.broadcast and world.gone[n]:
        yield FINISH
        return
    yield from (Plan("deliver", agent) for agent in others)
    if all(world.gone) or leg.best >= 0:
        yield FINISH
    if "delay" in setting.kinds or leg.attempt > 0:
        yield DELAY


# ---------------------------------------------------------------------- the script
def apply(p: Partition, decision: Decision, *, there: bool) -> str:
    """Apply one decision. `there`: its entry is still pending, so XACK answers 1. Verdicts as in the protocol."""
    mine = there or not p.on("xack")
    head, legs, ended = p.head, tuple(p.legs), tuple(p.ended)
    try:
        if decision.door == INGRESS:
            return _send(p, decision, mine=mine)
        return _decided(p, decision, mine=mine)
    except Aborted:  # by pcall of the batch: the others go on, this one is half written
        p.restore(head, legs, ended)
        return ERROR


def _send(p: Partition, decision: Decision, *, mine: bool) -> str:
    caller, plans = decision.about[0], decision.plans
    told, old = p.setting.sends[caller], p.head
    tombs: tuple[tuple[int, int], ...] = ()
    if old is not None and old.tombs:
        tombs, old = old.tombs, None
    reopens = old is not None and _reopens(p, old, caller)
    if old is not None and not reopens:
        return _duplicate(p, old, caller) if mine else SKIPPED
    if not p.setting.broadcast and p.obstacle(plans[0]):
        return _obstructed(p, mine=mine)
    if not mine:
        return SKIPPED
    cancelled = _is_cancelled(p, old, tombs, caller)
    if old is not None:
        _check_round(p, old, caller)
        p.time = FRESH
    p.head = Head(told.sender, told.content, told.round, (caller,))
    opens = p.setting.broadcast and old is not None and p.on("retryable")
    todo = [n for n in range(p.setting.legs) if not opens or p.legs[n].retryable]
    if old is None:
        p.legs = [Leg()] * p.setting.legs
    p.env = p.setting.large and not cancelled
    for n in todo:
        was = p.legs[n]
        p.legs[n] = Leg(agent=was.agent if p.setting.broadcast else -1)
        if reopens:
            p.legs[n] = p.legs[n]._replace(hand=p.fresh_hand() if p.on("fresh") else was.hand)
            p.ended[n] = 0
    for n in todo:
        if cancelled:
            p.close(n, DONE, told=True)
        else:
            p.place(n, plans[n])
    if reopens:
        _stored(p, caller, todo)
    return DONE_


def _obstructed(p: Partition, *, mine: bool) -> str:
    """What cannot be placed stays pending and is decided again; acknowledged first, nobody would have it any more."""
    if p.on("room"):
        return GONE
    return DONE_ if mine else SKIPPED


def _reopens(p: Partition, old: Head, caller: int) -> bool:
    told = p.setting.sends[caller]
    greater = told.round > old.round or not p.on("greater")
    if not greater or any(leg.state in OPEN for leg in p.legs):
        return False
    if (told.sender, told.content) != (old.sender, old.content):
        return False
    return any(leg.retryable for leg in p.legs) or not p.on("retryable")


def _check_round(p: Partition, old: Head, caller: int) -> None:
    if p.setting.sends[caller].round <= old.round:
        p.blame("a round is run twice")
    if not any(leg.retryable for leg in p.legs):
        p.blame("what has succeeded is run again")


def _is_cancelled(p: Partition, old: Head | None, tombs: tuple[tuple[int, int], ...], caller: int) -> bool:
    """Whether its sender has cancelled this round before the send has come."""
    told = p.setting.sends[caller]
    if old is not None:
        return told.round <= old.stopped
    for sender, round in tombs:
        if sender == told.sender or not p.on("tomb sender"):
            if sender != told.sender:
                p.blame("somebody else cancels a message")
            if told.round > round and not p.on("tomb round"):
                p.blame("the cancel of an older round ends a message")
                return True
            return told.round <= round
    return False


def _duplicate(p: Partition, old: Head, caller: int) -> str:
    told = p.setting.sends[caller]
    if p.on("fingerprint") and (told.sender, told.content) != (old.sender, old.content):
        p.refuse(caller)
        return DONE_
    if caller not in old.boxes and any(leg.state in OPEN for leg in p.legs):
        if len(old.boxes) >= p.setting.boxes and p.on("boxes"):
            p.refuse(caller)
            return DONE_
        p.head = old._replace(boxes=(*old.boxes, caller))
        if len(old.boxes) >= p.setting.boxes:
            p.blame("more callers are kept than a record has room for")
    _stored(p, caller, [])
    return DONE_


def _stored(p: Partition, caller: int, opened: list[int]) -> None:
    """The receipts of what has ended, for the caller that comes late."""
    ended = [n for n, leg in enumerate(p.legs) if leg.state not in OPEN and n not in opened]
    if ended:
        p.stored += 1
        if p.stored > sum(caller.sent for caller in p.callers) - 1:
            p.blame("a stored receipt is sent, and nobody has sent a duplicate")
    for n in ended:
        p.receipt(caller, n)


def _decided(p: Partition, decision: Decision, *, mine: bool) -> str:
    n, hand = decision.about[:2]
    plan, leg = decision.plans[0], p.leg(n)
    if leg is None or not _asks(p, leg, hand):
        if not p.on("quiet") and mine and p.head is not None:
            for box in p.head.boxes:
                _stored(p, box, [])
        return DONE_ if mine else SKIPPED
    seen = (leg.state, leg.attempt) == (decision.state, decision.attempt)
    if not seen and p.on("seen"):
        return CHANGED
    if leg.state == QUEUED and not (plan.act == "move" and _may_move(p, leg)):
        return DONE_ if mine else SKIPPED
    if leg.state != QUEUED and plan.act in {"move", "stay"}:
        return CHANGED
    if p.obstacle(plan):
        return _obstructed(p, mine=mine)
    if not mine:
        return SKIPPED
    _check(p, leg, decision, seen=seen)
    _carry_out(p, n, leg, plan)
    return DONE_


def _carry_out(p: Partition, n: int, leg: Leg, plan: Plan) -> None:
    there, moves = p.has_bytes(leg), plan.act == "move"
    if moves:
        _move(p, n, leg)
        plan = Plan("deliver", plan.agent)
    if not there and plan.act != "finish":
        p.lose(n)
        return
    p.place(n, plan)
    if moves and not p.on("new hand"):
        p.note(n, hand=leg.hand)
    if plan.act == "deliver" and not p.setting.broadcast:
        p.env = False


def _check(p: Partition, leg: Leg, decision: Decision, *, seen: bool) -> None:
    """What must hold when a decision is carried out."""
    assert p.head is not None
    if leg.hand != decision.about[1]:
        p.blame("an again of an older hand is acted on")
    if leg.state == WAITING and not leg.over:
        p.blame("a leg goes on before its wait is over")
    if not seen:
        p.blame("a decision is carried out that was made for another state")
    if decision.round != p.head.round:
        p.blame("a decision is carried out that was made for an older round")


def _asks(p: Partition, leg: Leg, hand: int) -> bool:
    if p.on("again hand") and leg.hand != hand:
        return False
    return leg.state in {RETURNED, QUEUED} or (leg.state == WAITING and (leg.over or not p.on("not due")))


def _may_move(p: Partition, leg: Leg) -> bool:
    letter = p.letter(leg)
    undelivered = letter is not None and letter.instance == NOBODY
    return (leg.moves < MAX_MOVES or not p.on("two moves")) and (undelivered or not p.on("undelivered"))


def _move(p: Partition, n: int, leg: Leg) -> None:
    if p.on("move deletes"):
        p.drop(leg.hand, leg.agent)
    p.note(n, moves=leg.moves + 1)
    if leg.moves + 1 > MAX_MOVES:
        p.blame("more than two moves in one attempt")
