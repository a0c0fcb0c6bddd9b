"""Keys and Redis: deleted, spoilt and forged ones, an outage, a restart that loses the tail; and the window of a record."""

from tests.model import take_settle
from tests.model.partition import FAULT, Partition
from tests.model.scene import Scene, Steps, step
from tests.model.world import (
    AGAIN,
    DEAD,
    NO_GRACE,
    NOBODY,
    OPEN,
    RECEIPTS,
    RUNNING,
    SUCCESS,
    TICK_OLD,
    UNREAD,
    Decision,
    Entry,
    World,
)


class Keys(Scene):
    """What happens to keys."""

    def of(self, world: World) -> Steps:
        for who in range(self.setting.agents):
            if not world.gone[who]:
                yield from self._inboxes(world, who)
        yield from self._deleted(world)
        yield from self._forged(world)
        yield from self._restarts(world)

    def _deleted(self, world: World) -> Steps:
        for p in self.may(world, "env lost"):
            if world.env:
                p.env, p.lost_bytes = False, True
                yield step("env is deleted", FAULT, p, ("delete env",))
        for p in self.may(world, "due lost"):
            if world.armed:
                p.armed = False
                yield step("due is deleted", FAULT, p, ("delete due",))
        for p in self.may(world, "mailbox spoilt"):
            if not world.spoilt:
                p.spoilt = True
                yield step("the mailbox of caller 0 is overwritten with another type", FAULT, p, ("spoil",))
        for p in self.may(world, "record expires"):
            if "window" not in self.setting.guards and world.legs and not any(leg.state in OPEN for leg in world.legs):
                p.head, p.legs = None, []
                yield step("the record expires", FAULT, p)

    def _inboxes(self, world: World, who: int) -> Steps:
        for p in self.may(world, "inbox lost"):
            p.inbox = [letter for letter in world.inbox if letter.agent != who]
            p.gone[who] = p.lost_bytes = True
            yield step(f"the inbox of agent {who} is deleted", FAULT, p, ("delete inbox", who))
        for p in self.may(world, "inbox removed"):
            verdict = take_settle.close_inbox(p, who)
            yield step(f"agent {who} is removed, close_inbox: {verdict}", FAULT, p, ("close", who, verdict))
        for p in self.may(world, "group lost"):
            if any(letter.agent == who and letter.instance != NOBODY for letter in world.inbox):
                p.inbox = [x._replace(instance=NOBODY) if x.agent == who else x for x in world.inbox]
                text = f"the group of agent {who}'s inbox is lost and made anew at 0"
                yield step(text, FAULT, p, ("lose group", who))

    def _forged(self, world: World) -> Steps:
        if not world.legs:
            return
        for hand in sorted({0, world.legs[0].hand, world.hands}):
            for p in self.may(world, "again forged"):
                p.doors.append(Entry(AGAIN, (0, hand)))
                yield step(f"again (leg 0, #{hand}) is forged", FAULT, p, ("again", 0, hand))
        for p in self.may(world, "receipt forged"):
            p.doors.append(Entry(RECEIPTS, (0, world.hands, SUCCESS, world.legs[0].agent)))
            call = ("receipts", 0, world.hands, SUCCESS)
            yield step(f"receipts (leg 0, #{world.hands}) is forged", FAULT, p, call)

    def _restarts(self, world: World) -> Steps:
        """Redis is away for longer than a lease; or it dies and comes back with an earlier state, while processes remember."""
        for p in self.may(world, "outage"):
            if world.grace == NO_GRACE:
                p.grace = TICK_OLD
                yield step("Redis is away for 20 s", FAULT, p)
        for p in self.may(world, "tail lost"):
            if world.kept is None and world.callers[0].sent and p.faults:
                p.kept = _in_redis(world)
                yield step("(the last write that survives)", FAULT, p, ("keep",))
        if world.kept is not None:
            p = self.open(world._replace(faults=max(world.faults - 1, 0)))
            _restore(p, world, world.kept)
            yield step("Redis restarts, what came after is lost", FAULT, p, ("restart",))


# ---------------------------------------------------------------------- the lost tail
def _in_redis(world: World) -> World:
    doors = tuple(sorted(Entry(e.door, e.about, e.reader) for e in world.doors))
    return world._replace(doors=doors, works=(), orphans=(), faults=0, time=0, grace=0, lost_bytes=False)


def without(kept: World | None, instance: int) -> World | None:
    """What survives, after the death of an instance."""
    if kept is None:
        return None
    inbox = tuple(x._replace(instance=DEAD) if x.instance == instance else x for x in kept.inbox)
    legs = tuple(x._replace(instance=DEAD) if x.instance == instance else x for x in kept.legs)
    return kept._replace(inbox=inbox, legs=legs)


def _restore(p: Partition, world: World, kept: World) -> None:
    p.head, p.legs, p.env, p.armed = kept.head, list(kept.legs), kept.env, kept.armed
    p.doors, p.inbox, p.gone = list(kept.doors), list(kept.inbox), list(kept.gone)
    p.callers, p.ended, p.cancelled, p.stored = list(kept.callers), list(kept.ended), kept.cancelled, kept.stored
    p.kept, p.spoilt = None, kept.spoilt
    # A router sends its command again: XACK answers 1 where the entry is pending in the restored stream, else 0.
    p.orphans = []
    for decision in [d for e in world.doors for d in e.held] + list(world.orphans):
        _relink(p, decision)
    # A run that the restored ledger does not know is none of its holders any more; its agent learns it by the next renewal.
    for k, work in enumerate(p.works):
        leg = p.leg(work.leg)
        if leg is None or (leg.hand, leg.state, leg.instance) != (work.hand, RUNNING, work.instance):
            p.works[k] = work._replace(over=True)


def _relink(p: Partition, decision: Decision) -> None:
    for entry in p.doors:
        if (entry.door, entry.about) == (decision.door, decision.about) and entry.reader != UNREAD and not entry.held:
            p.put(entry, entry.reader, (decision,))
            return
    p.orphans.append(decision)
