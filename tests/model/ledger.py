"""The ledger as a model to explore: one message, its scenario, and the promises that must hold in every state."""

import re
from collections.abc import Iterable, Sequence

from tests.model import due
from tests.model.explorer import Model
from tests.model.happenings import Happenings, is_over
from tests.model.partition import FAULT, Partition, Setting
from tests.model.scene import Step
from tests.model.world import (
    OPEN,
    QUEUED,
    RUNNING,
    Caller,
    World,
    canonical,
    names_of,
)


class Ledger(Model[World, Step]):
    """PROTOCOL, section 7, under one scenario."""

    def __init__(self, setting: Setting) -> None:
        off = sorted(setting.guards ^ type(setting)._field_defaults["guards"])
        self.name = f"{setting.name}, {setting.faults} faults" + (f", without {', '.join(off)}" if off else "")
        self.setting, self.within = setting, setting.within
        self.happenings = Happenings(setting)
        self.made: set[tuple[str, str]] = set()
        self.start = World(
            head=None,
            legs=(),
            env=False,
            armed=False,
            doors=(),
            inbox=(),
            gone=(False,) * setting.agents,
            callers=(Caller(),) * len(setting.sends),
            ended=(0,) * setting.legs,
            cancelled=0,
            stored=0,
            spoilt=False,
            orphans=(),
            works=(),
            answers=(),
            time=0,
            grace=0,
            lost_bytes=False,
            faults=setting.faults,
            kept=None,
            hands=1,
            instances=3,
        )

    def moves(self, state: World) -> Iterable[Step]:
        for step in self.happenings.of(state):
            if self.within < step.pace < FAULT:
                continue
            self.made.update(step.made)
            yield step

    def next(self, move: Step) -> World:
        return canonical(move.world)

    def is_over(self, state: World) -> bool:
        return is_over(state)

    # ---------------------------------------------------------------- what must hold in every state
    def wrong_in(self, state: World) -> str:
        """Queued, hand and inbox agree; the bytes are somewhere; `due` alone can end it."""
        world = state
        for n, leg in enumerate(world.legs):
            if leg.state in OPEN and world.ended[n]:
                return "a leg is open after its terminal receipt"
            if leg.state not in OPEN and not world.ended[n]:
                return "a leg has ended without a receipt"
            if world.lost_bytes or leg.state not in OPEN:
                continue
            own = [x for x in world.inbox if (x.hand, x.leg, x.agent) == (leg.hand, n, leg.agent)]
            if leg.state == QUEUED and len(own) != 1:
                return "a queued leg has no inbox entry"
            if not world.env and not (leg.state in {QUEUED, RUNNING} and own and own[0].body):
                return "the bytes of an open leg are nowhere"
        hands = {(n, leg.hand) for n, leg in enumerate(world.legs) if leg.state in {QUEUED, RUNNING}}
        if any((x.leg, x.hand) not in hands for x in world.inbox):
            return "an inbox entry is no leg's hand"
        return self._without_anybody(world)

    def _without_anybody(self, world: World) -> str:
        if not any(leg.state in OPEN for leg in world.legs):
            return ""
        p = Partition(self.setting, world)
        due.alone(p)
        if p.wrong:
            return f"due at total: {p.wrong}"
        if any(leg.state in OPEN for leg in p.legs):
            return "nobody ends the message at its total"
        return ""

    # ---------------------------------------------------------------- words
    def tell(self, moves: Sequence[Step]) -> list[str]:
        """Names that stay: the model gives hands and instances new numbers in every state, a reader wants the same ones."""
        told: list[str] = []
        names: dict[str, dict[int, str]] = {"#": {0: "h0"}, "@": {1: "a dead one", 2: "plain"}}
        count = {"#": 0, "@": 0}
        for move in moves:

            def name(match: re.Match[str]) -> str:
                kind, number = match.group(1), int(match.group(2))
                if number not in names[kind]:
                    count[kind] += 1
                    names[kind][number] = f"{'h' if kind == '#' else 'i'}{count[kind]}"
                return names[kind][number]

            told.append(re.sub(r"([#@])(\d+)", name, move.name))
            hands, people = names_of(move.world)
            for kind, now in (("#", hands), ("@", people)):
                for old in now:
                    if old not in names[kind] and old > (0 if kind == "#" else 2):
                        count[kind] += 1
                        names[kind][old] = f"{'h' if kind == '#' else 'i'}{count[kind]}"
                names[kind] = {new: names[kind][old] for old, new in now.items() if old in names[kind]} | {
                    k: v for k, v in names[kind].items() if kind == "@" and k <= 2
                }
        return told
