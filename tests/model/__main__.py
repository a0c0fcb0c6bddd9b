"""Explore the ledger from the command line.

python -m tests.model                          every scenario, as in the quick run
python -m tests.model --sec 300                more and more faults, until the time is over
python -m tests.model --minus hand [--faults N]      what goes wrong without a guard
python -m tests.model --each                   the same for every guard, one after the other
python -m tests.model --only doors --faults 4  one scenario with so many faults
"""

import argparse
import sys
from collections.abc import Iterator
from time import monotonic

from tests.model import bounds, circuit, conversation, lease_clock, lines, once_guard, requeue, rooms, silence, stages
from tests.model.explorer import Report, explore
from tests.model.guards import ALL, GUARDS
from tests.model.ledger import Ledger
from tests.model.scenarios import BY_NAME, SCENARIOS


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.model", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", choices=sorted(BY_NAME), help="one scenario")
    parser.add_argument("--faults", type=int, help="how many faults may happen")
    parser.add_argument("--minus", choices=sorted(ALL), action="append", default=[], help="leave a guard out")
    parser.add_argument("--each", action="store_true", help="leave every guard out in turn")
    parser.add_argument("--sec", type=float, default=0, help="deepen for so long")
    parser.add_argument("--max", type=int, default=100_000_000, help="at most so many states for each scenario")
    told = parser.parse_args(words)
    if told.each:
        return without_each()
    if told.sec:
        return deepen(told.sec, told.max)
    broken = False
    for setting in [BY_NAME[told.only]] if told.only else SCENARIOS:
        faults = setting.faults if told.faults is None else told.faults
        report = explore(Ledger(setting._replace(faults=faults, guards=ALL - set(told.minus))), max_states=told.max)
        print(report, flush=True)
        broken = broken or bool(report.broken)
    for report in () if told.only or told.minus else beside():
        print(report, flush=True)
        broken = broken or bool(report.broken)
    return int(broken)


def beside() -> Iterator[Report]:
    """The models of what stands beside the ledger, each whole."""
    yield from (explore(lease_clock.LeaseClock(each)) for each in lease_clock.SCENARIOS)
    yield from (explore(conversation.Conversation(each)) for each in conversation.SCENARIOS)
    yield from (explore(lines.Lines(each)) for each in lines.SCENARIOS)
    yield from (explore(stages.Stages(each)) for each in stages.SCENARIOS)
    yield from (explore(circuit.Circuit(each)) for each in circuit.SCENARIOS)
    yield from (explore(once_guard.OnceGuard(each)) for each in once_guard.SCENARIOS)
    yield from (explore(bounds.Share()), explore(bounds.Rate()), explore(rooms.Rooms()))
    yield explore(requeue.Requeue(requeue.Setting()))
    yield explore(silence.Silence(silence.Setting()))


def without_each() -> int:
    """Each guard left out must break something."""
    survivors = []
    for guard in GUARDS:
        report = without(guard.name)
        print(report, flush=True)
        if not report.broken:
            survivors.append(guard.name)
    print("not needed:", ", ".join(survivors) or "none")
    return int(bool(survivors))


def without(name: str) -> Report:
    """Explore the scenario that shows what a guard is for, without it."""
    guard = next(guard for guard in GUARDS if guard.name == name)
    setting = BY_NAME[guard.case]._replace(faults=guard.faults, guards=ALL - {name})
    return explore(Ledger(setting), until=bool)


def deepen(seconds: float, max_states: int) -> int:
    """All scenarios with one fault, with two, with three ... as far as the time goes."""
    started = monotonic()
    broken, total = False, 0
    left = list(SCENARIOS)
    for faults in range(1, 99):
        for setting in list(left):
            rest = seconds - (monotonic() - started)
            if rest <= 0:
                print(f"all in all: {total:,} states, {monotonic() - started:.0f} s")
                return int(broken)
            report = explore(Ledger(setting._replace(faults=faults)), max_states=max_states, max_seconds=rest)
            print(report, flush=True)
            total += report.explored
            broken = broken or bool(report.broken)
    return int(broken)


if __name__ == "__main__":
    sys.exit(main())
