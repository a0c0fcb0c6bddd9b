"""Routers: they read an entry of a door, decide, apply. Each may die in between, be slow, or lose the reply of any of its calls.

What was read stays pending with its entry; a second router may hold a decision for the same entry when the first was slow.
"""

from collections.abc import Iterable

from tests.model import route, take_settle
from tests.model.partition import AT_ONCE, BY_CLAIM, FAULT, Partition
from tests.model.scene import Call, Scene, Steps, about, said, step
from tests.model.world import AGAIN, LIVING, LOST, NOBODY, QUEUED, RECEIPTS, UNREAD, Decision, Entry, World


class Routers(Scene):
    """All routers together: none of them remembers anything but the decisions that it holds."""

    def of(self, world: World) -> Steps:
        for entry in sorted(set(world.doors)):
            yield from self._readers(world, entry)
            for decision in sorted(set(entry.held)):
                yield from self._applies(world, entry, decision)
            if entry.door == AGAIN:
                yield from self._spoilt(world, entry)
        for decision in sorted(set(world.orphans)):
            yield from self._applies_late(world, decision)

    # ---------------------------------------------------------------- reading
    def _readers(self, world: World, entry: Entry) -> Steps:
        what = about(entry)
        if entry.reader == UNREAD:
            yield from self._reads(world, entry, f"router reads {what}", AT_ONCE)
            for p in self.may(world, "reply of read lost"):
                p.put(entry, LIVING, ())
                yield step(f"router reads {what}, the reply is lost", FAULT, p)
        elif not entry.held:
            if entry.reader == LIVING and "reread" in self.setting.guards:
                yield from self._reads(world, entry, f"router reads its own pending {what}", AT_ONCE)
            elif "claim" in self.setting.guards:
                yield from self._reads(world, entry, f"router claims {what}", BY_CLAIM)
        elif len(entry.held) == 1:
            yield from self._reads(world, entry, f"router claims {what} from a slow one", FAULT, "router slow")

    def _reads(self, world: World, entry: Entry, text: str, pace: int, kind: str = "") -> Steps:
        """A router gets to know an entry, and decides; what asks for nothing it finishes at once."""
        options = self._options(world, entry)
        for decision in options:
            for p in self.chosen(world, kind):
                p.put(entry, LIVING, (*entry.held, decision))
                yield step(f"{text}{said(decision)}", pace, p)
        if not options:
            for p in self.chosen(world, kind):
                p.take_out(entry)
                yield step(f"{text}: silence", pace, p, ("finish", entry))

    def _options(self, world: World, entry: Entry) -> list[Decision]:
        if entry.door == RECEIPTS:
            return [Decision(RECEIPTS, entry.about)]
        return list(route.decisions(self.setting, world, entry))

    # ---------------------------------------------------------------- applying
    def _applies(self, world: World, entry: Entry, decision: Decision) -> Steps:
        """A router applies what it holds, or dies before."""
        rest = list(entry.held)
        rest.remove(decision)
        p = self.open(world)
        verdict = self._apply(p, decision, there=True)
        text = f"route: {about(decision)}{said(decision)}: {verdict}"
        if verdict in {route.CHANGED, route.GONE}:
            call = ("route", decision, True, verdict)
            yield from self._decides_again(world, entry, rest, text, self._options(world, entry), call)
        else:
            p.take_out(entry, decision)
            call = ("route", decision, True, verdict)
            yield step(text, AT_ONCE, p, call)
            yield from self._reply_lost(world, entry, decision, text, call)
        if decision.plans and decision.plans[0].act in {"deliver", "move"} and not self.setting.broadcast:
            full = route.DELAY if decision.state != QUEUED else route.STAY
            options = [*self._options(world, entry), decision._replace(plans=(full,))]
            text = f"route: {about(decision)}: full"
            yield from self._decides_again(world, entry, rest, text, options, (), "inbox full")
        for q in self.may(world, "router dies"):
            q.put(entry, LIVING if rest else LOST, tuple(rest))
            yield step(f"the router that holds {about(decision)} dies", FAULT, q)

    def _reply_lost(self, world: World, entry: Entry, decision: Decision, text: str, call: Call) -> Steps:
        for p in self.may(world, "reply of route lost"):
            self._apply(p, decision, there=True)
            p.take_out(entry, decision)
            p.orphans.append(decision)
            yield step(f"{text}, the reply is lost", FAULT, p, call)
        if decision.door == RECEIPTS:  # two calls: settle, then XACK and XDEL
            for p in self.may(world, "router dies"):
                self._apply(p, decision, there=True)
                p.put(entry, LOST, tuple(x for x in entry.held if x is not decision))
                yield step(f"{text}, the router dies before XACK", FAULT, p, (*call, "no XACK"))

    def _decides_again(
        self,
        world: World,
        entry: Entry,
        rest: list[Decision],
        text: str,
        options: Iterable[Decision],
        call: Call,
        kind: str = "",
    ) -> Steps:
        """Nothing was written: the router sees the leg again, and decides again."""
        pace = FAULT if kind else AT_ONCE
        found = sorted(set(options))
        calls = (call,) if call else ()
        for decision in found:
            for p in self.chosen(world, kind):
                p.put(entry, LIVING, (*rest, decision))
                yield step(f"{text}, decides again{said(decision)}", pace, p, *calls)
        if not found:
            for p in self.chosen(world, kind):
                p.take_out(entry)
                p.orphans = list(world.orphans) + rest
                yield step(f"{text}, silence", pace, p, *calls, ("finish", entry))

    def _applies_late(self, world: World, decision: Decision) -> Steps:
        """A router applies what another one has applied already (it was slow), or sends it again (its first reply was lost)."""
        p = self.open(world)
        p.orphans.remove(decision)
        verdict = self._apply(p, decision, there=False)
        call = ("route", decision, False, verdict)
        yield step(f"route once more: {about(decision)}{said(decision)}: {verdict}", AT_ONCE, p, call)

    @staticmethod
    def _apply(p: Partition, decision: Decision, *, there: bool) -> str:
        if decision.door == RECEIPTS:
            n, hand, outcome, who = decision.about
            return take_settle.settle(p, (n, hand, who), NOBODY, outcome)
        return route.apply(p, decision, there=there)

    # ---------------------------------------------------------------- entries
    def _spoilt(self, world: World, entry: Entry) -> Steps:
        for p in (
            self.may(world, "again lost") if not entry.held else ()
        ):  # what a router has read is XACKed all the same
            p.take_out(entry)
            yield step(f"{about(entry)} is lost", FAULT, p, ("lose", entry))
        for p in self.may(world, "again doubled"):
            p.doors.append(Entry(AGAIN, entry.about))
            yield step(f"{about(entry)} is doubled", FAULT, p, ("again", *entry.about))
