"""Callers, who send, send again and cancel; and `due` with the clock: what happens because time passes."""

from tests.model import due, take_settle
from tests.model.partition import AT_ONCE, AT_TOTAL, BY_DUE, FAULT
from tests.model.scene import Scene, Steps, step
from tests.model.world import EXPIRED, FRESH, GRACE, NOBODY, OPEN, PARKED, QUEUED, RUNNING, TOTAL_OVER, TTL_OVER, World

CANCELS = (("cancel", 0, 1), ("stranger cancels", 1, 1), ("cancel round 2", 0, 2))


class Callers(Scene):
    """Caller 0 asks; the others are there where the scenario has the fault `another caller`."""

    def of(self, world: World) -> Steps:
        for caller, state in enumerate(world.callers):
            text = f"caller {caller} sends round {self.setting.sends[caller].round}: "
            if caller == 0 and not state.sent:
                p = self.open(world)
                p.submit(caller)
                yield step(f"{text}XADD ingress", AT_ONCE, p, ("submit", caller))
                continue
            for p in self.may(world, "XADD doubled" if state.sent else "another caller"):
                p.submit(caller)
                text += "XADD ingress, once more" if state.sent else "XADD ingress"
                yield step(text, FAULT, p, ("submit", caller))
        for n, hand in sorted(set(world.answers)):
            yield from self._answers(world, n, hand)
        for kind, sender, round in CANCELS:
            for p in self.may(world, kind):
                verdict = due.cancel(p, sender, round)
                text = f"cancel of round {round} by sender {sender}: {verdict}"
                yield step(text, FAULT, p, ("cancel", sender, round, verdict))

    def _answers(self, world: World, n: int, hand: int) -> Steps:
        for kind in ("", "answer doubled"):
            for p in self.chosen(world, kind):
                if not kind:
                    p.answers.remove((n, hand))
                verdict = take_settle.answer(p, n, hand)
                text = f"caller 0 answers #{hand}{', and will once more' if kind else ''}: {verdict}"
                yield step(text, FAULT if kind else AT_ONCE, p, ("answer", n, hand, verdict))


class Clock(Scene):
    """Time passes, and `due` runs: in a router, or for a caller about its own message."""

    def of(self, world: World) -> Steps:
        yield from self._passes(world)
        for n, leg in enumerate(world.legs):
            if leg.state not in OPEN:
                continue
            if world.time == TOTAL_OVER:
                yield from self._total(world)
                break
            yield from self._visits(world, n)
        if world.grace == GRACE:
            p = self.open(world)
            due.grace_over(p)
            yield step("grace is over", BY_DUE, p)

    def _passes(self, world: World) -> Steps:
        if not any(leg.state in OPEN for leg in world.legs):
            return
        asks = any(leg.state == PARKED for leg in world.legs)  # its total stands still
        for kind, moment, text in (("ttl", TTL_OVER, "first_at passes"), ("total", TOTAL_OVER, "total_at passes")):
            if world.time >= moment or (moment == TOTAL_OVER and asks):
                continue
            for p in self.may(world, kind):
                p.time = moment
                yield step(text, FAULT, p, ("pass", moment))
        if world.time < TOTAL_OVER and not asks and self.setting.within == AT_TOTAL:
            p = self.open(world)
            p.time = TOTAL_OVER
            yield step("total_at passes", AT_TOTAL, p, ("pass", TOTAL_OVER))

    def _total(self, world: World) -> Steps:
        if world.armed or "callers due" in self.setting.guards:
            p = self.open(world)
            due.total(p)
            yield step("due: timeout.total", BY_DUE, p, ("callers due",))

    def _visits(self, world: World, n: int) -> Steps:
        leg = world.legs[n]
        undelivered = leg.state == QUEUED and any(x.hand == leg.hand and x.instance == NOBODY for x in world.inbox)
        if undelivered and world.time == FRESH and not world.grace:
            for p in self.may(world, "slow inbox"):
                if due.visit(p, n) == "again":
                    text = f"due: leg {n}, #{leg.hand} is not picked up in network_ms: again"
                    yield step(text, FAULT, p, ("due", n, "again"))
        elif world.armed and leg.state != PARKED:  # that is looked at when its question closes
            p = self.open(world)
            if verdict := due.visit(p, n):
                yield step(f"due: leg {n}, {verdict}", BY_DUE, p, ("due", n, verdict))
        if "caller" not in self.setting.guards:
            p = self.open(world)
            if verdict := due.visit(p, n, caller=True):
                yield step(f"a caller's due: leg {n}, {verdict}", FAULT, p)
        if leg.state == PARKED:
            for p in self.may(world, "question closes"):
                p.close(n, EXPIRED, retryable=True, told=True)
                yield step(f"due: leg {n}, nobody has answered", FAULT, p)
        if leg.state == RUNNING and not world.grace:
            for p in self.may(world, "handler hangs"):
                due.overdue(p, n)
                yield step(f"due: leg {n}, timeout.processing, returned", FAULT, p)
