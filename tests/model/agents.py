"""Agents: their instances take, run, renew, settle. Each may die, stop for longer than a lease, hang, or lose the reply of any call."""

from tests.model import keys, take_settle
from tests.model.partition import AT_ONCE, FAULT, Partition
from tests.model.scene import OUTCOMES, Call, Scene, Steps, step
from tests.model.world import (
    ASKS,
    DEAD,
    GUESS,
    HANDED_BACK,
    NOBODY,
    PLAIN,
    RECEIPTS,
    RETRYABLE,
    SUCCESS,
    UNSURE,
    Entry,
    Letter,
    Work,
    World,
)

#: how a run may end, and the fault as which it is counted
ENDS = (
    (SUCCESS, ""),
    (RETRYABLE, "retryable"),
    (UNSURE, "unsure"),
    (GUESS, "guess"),
    (HANDED_BACK, "handed back"),
    (ASKS, "asks"),
)


def _end(p: Partition, work: Work, outcome: int) -> tuple[str, Call]:
    """Settle, or park: the verdict, and the call."""
    about = (work.leg, work.hand, work.agent)
    if outcome == ASKS:
        verdict = take_settle.park(p, about, work.instance)
        return verdict, ("park", work, verdict)
    verdict = take_settle.settle(p, about, work.instance, outcome)
    return verdict, ("settle", work, outcome, verdict)


class Agents(Scene):
    """All instances of all agents."""

    def of(self, world: World) -> Steps:
        for letter in world.inbox:
            if world.gone[letter.agent]:
                continue
            if letter.instance == NOBODY:
                yield from self._takes(world, letter)
            elif letter.instance not in {DEAD, PLAIN}:
                yield from self._takes_again(world, letter)
        for work in sorted(set(world.works)):
            if work.instance == PLAIN:
                yield from self._answers(world, work)
            else:
                yield from self._settles(world, work)
            yield from self._renews(world, work)
        yield from self._dies(world)
        for who, is_gone in enumerate(world.gone):
            if is_gone:
                p = self.open(world)
                p.gone[who] = False
                yield step(f"take: the inbox of agent {who} is gone, open_inbox", AT_ONCE, p, ("open", who))

    # ---------------------------------------------------------------- take
    def _takes(self, world: World, letter: Letter) -> Steps:
        for instance in self._people(world, letter.agent):
            text = f"take of #{letter.hand} by @{instance}"
            p = self.open(world)
            verdict = take_settle.take(p, letter, instance, resumed=False, reply=True)
            call = ("take", letter, instance, False, verdict)
            yield step(f"{text}: {verdict}", AT_ONCE, p, call)
            if verdict == "runs":
                for p in self.may(world, "reply of take lost"):
                    take_settle.take(p, letter, instance, resumed=False, reply=False)
                    yield step(f"{text}, the reply is lost", FAULT, p, call)
        for p in self.may(world, "plain reader"):
            take_settle.plain_read(p, letter)
            yield step(f"XREADGROUP of #{letter.hand} by a plain agent", FAULT, p, ("plain", letter))

    def _takes_again(self, world: World, letter: Letter) -> Steps:
        """After a lost connection: what is pending to the instance, but what it says that it holds."""
        holds = any((w.hand, w.instance) == (letter.hand, letter.instance) for w in world.works)
        text = f"take once more of #{letter.hand} by @{letter.instance}"
        if not holds and "resume" in self.setting.guards:
            p = self.open(world)
            verdict = take_settle.take(p, letter, letter.instance, resumed=True, reply=True)
            yield step(f"{text}: {verdict}", AT_ONCE, p, ("take", letter, letter.instance, True, verdict))
        if holds and "held" not in self.setting.guards:
            p = self.open(world)
            take_settle.take(p, letter, letter.instance, resumed=True, reply=True)
            yield step(f"{text}, which holds it", FAULT, p)

    def _people(self, world: World, who: int) -> list[int]:
        """The instances of an agent: those that the world knows, and one that it does not, while there is room."""
        known = {x.instance for x in world.inbox if x.agent == who} | {
            x.instance for x in world.works if x.agent == who
        }
        known |= {leg.instance for leg in world.legs if leg.agent == who}
        known -= {NOBODY, DEAD, PLAIN}
        return sorted(known) + ([world.instances] if len(known) < self.setting.instances else [])

    # ---------------------------------------------------------------- settle
    def _settles(self, world: World, work: Work) -> Steps:
        for outcome, kind in ENDS:
            text = f"settle of #{work.hand} by @{work.instance}, {OUTCOMES[outcome]}"
            if work.said:
                if work.said == outcome:
                    yield from self._repeats(world, work, f"{text}, once more")
                continue
            for p in self.chosen(world, kind):
                p.works.remove(work)
                verdict, call = _end(p, work, outcome)
                yield step(f"{text}: {verdict}", FAULT if kind else AT_ONCE, p, call)
            if kind and kind not in self.setting.kinds:
                continue
            for p in self.may(world, "reply of settle lost"):
                p.works.remove(work)
                verdict, call = _end(p, work, outcome)
                if verdict == "done":
                    p.works.append(work._replace(said=outcome))
                    yield step(f"{text}: {verdict}, the reply is lost", FAULT, p, call)
        if not work.said and not work.over:
            yield from self._asks_on(world, work)

    def _asks_on(self, world: World, work: Work) -> Steps:
        """It has asked, and goes on all the same: fenced, until its renewal tells it."""
        for p in self.may(world, "asks on"):
            p.works.remove(work)
            verdict, call = _end(p, work, ASKS)
            p.works.append(work._replace(over=True))
            yield step(f"#{work.hand} asks, and @{work.instance} goes on: {verdict}", FAULT, p, call)

    def _repeats(self, world: World, work: Work, text: str) -> Steps:
        """What was accepted once is accepted again, unless the leg has gone on since, and changes nothing."""
        p = self.open(world)
        p.works.remove(work)
        verdict, call = _end(p, work, work.said)
        leg = p.leg(work.leg)
        if leg is not None and leg.hand == work.hand and leg.settled and verdict != "done":
            p.blame("the repeat of an accepted result is called stale")
        if tuple(p.legs) != world.legs:
            p.blame("the repeat of a result changes something")
        yield step(f"{text}: {verdict}", AT_ONCE, p, call)

    def _answers(self, world: World, work: Work) -> Steps:
        """An agent without scripts: XADD receipts, and nothing else."""
        for outcome, kind in ENDS[:-2]:
            for p in self.chosen(world, kind):
                p.works.remove(work)
                p.doors.append(Entry(RECEIPTS, (work.leg, work.hand, outcome, work.agent)))
                text = f"XADD receipts #{work.hand}, {OUTCOMES[outcome]}"
                yield step(text, FAULT if kind else AT_ONCE, p, ("receipts", work.leg, work.hand, outcome))
            if not kind:
                for p in self.may(world, "receipt doubled"):
                    p.doors.append(Entry(RECEIPTS, (work.leg, work.hand, outcome, work.agent)))
                    text = f"XADD receipts #{work.hand}, {OUTCOMES[outcome]}, to be sent again"
                    yield step(text, FAULT, p, ("receipts", work.leg, work.hand, outcome))

    # ---------------------------------------------------------------- leases
    def _renews(self, world: World, work: Work) -> Steps:
        """Told where it changes something: who renews in time is the ordinary case."""
        text = f"of #{work.hand} by @{work.instance}"
        letter = next((x for x in world.inbox if (x.hand, x.agent) == (work.hand, work.agent)), None)
        pending = letter is not None and letter.instance != NOBODY
        if not pending or work.over or (letter is not None and letter.instance != work.instance):
            p = self.open(world)
            is_held = take_settle.renew(p, work)
            verdict = "held" if is_held else "lost, the handler is cancelled"
            yield step(f"renew {text}: {verdict}", AT_ONCE, p, ("renew", work, is_held))
        if pending and not work.over:
            if "hint" not in self.setting.guards:
                for p in self.may(world, "forged hint"):
                    p.works.remove(work)
                    p.blame("a run is given up for a hint that says nothing true")
                    yield step(f"the run {text} is given up for a forged hint", FAULT, p)
            for p in self.may(world, "agent stops"):
                self._stop(p, work)
                yield step(f"the run {text} stops for more than a lease", FAULT, p)

    @staticmethod
    def _stop(p: Partition, work: Work) -> None:
        p.works.remove(work)
        p.works.append(work._replace(over=True))

    def _dies(self, world: World) -> Steps:
        """An instance dies, with all that it runs."""
        for instance in sorted({work.instance for work in world.works}):
            for p in self.may(world, "agent dies"):
                p.works = [work for work in p.works if work.instance != instance]
                p.inbox = [x._replace(instance=DEAD) if x.instance == instance else x for x in p.inbox]
                p.legs = [x._replace(instance=DEAD) if x.instance == instance else x for x in p.legs]
                p.kept = keys.without(p.kept, instance)
                yield step(f"@{instance} dies", FAULT, p)
