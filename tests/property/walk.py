"""Random walks on the memory backend and on every real server of this machine at once: `python -m tests.property.walk --minutes 10`.

Prints how many walks, moves and steps were compared; a difference ends it with the walk that has found it.
"""

import argparse
import asyncio
import contextlib
import logging
import secrets
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from hypothesis import HealthCheck, Phase, given, seed, settings

from reach.backend.private_server import PrivateServer
from reach.errors import BackendError
from tests import servers
from tests.property.moves import Fault, walks
from tests.property.one_move import Move
from tests.property.strangers import WholeWalker
from tests.property.trio import Crash, Differ, Trio


@dataclass
class Tally:
    """What was done: walks, moves, steps of the port by name, faults and answers by kind."""

    walks: int = 0
    moves: int = 0
    steps: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        rows = [
            f"{self.walks} walks, {self.moves} moves, {self.steps.total()} steps, each compared in answer and in all that is stored"
        ]
        rows += [
            f"faults: {_counts(self.faults)}",
            f"steps: {_counts(self.steps)}",
            f"answers: {_counts(self.answers)}",
        ]
        return "\n".join(rows)


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counter.most_common()) or "none"


@contextlib.contextmanager
def running_servers() -> Iterator[dict[str, str]]:
    """The chosen engines (REACH_TEST_SERVERS, else all), one server of each: engine -> its address."""
    with contextlib.ExitStack() as stack:
        urls = {}
        for engine in servers.selected():
            binary = servers.binaries()[engine]
            started = stack.enter_context(PrivateServer.start(binary=binary, extra_args=servers.TEST_OPTIONS))
            urls[engine] = started.url
        yield urls


def explore(urls: Mapping[str, str], tally: Tally, examples: int, *, fixed: bool = True, until: float = 0.0) -> None:
    """Compare so many random walks, the same ones at every run where they are `fixed`. Raises Differ with the walk.

    `until`: end early at this moment of `time.monotonic()`.
    """

    # No shrinking: it takes minutes, and a walk of thirty groups can be read. Add Phase.shrink to have the least one.
    @settings(
        max_examples=examples,
        deadline=None,
        derandomize=fixed,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(walk=walks)
    def explore_one(walk: list[tuple[list[Move], Fault]]) -> None:
        if until and time.monotonic() > until:
            return
        asyncio.run(follow(urls, walk, tally))

    run = explore_one if fixed else seed(secrets.randbits(64))(explore_one)
    run()


async def follow(urls: Mapping[str, str], walk: Iterable[tuple[list[Move], Fault]], tally: Tally) -> None:
    """Make one walk: groups of moves, each with the fault that it meets. Raises Differ, with all moves up to then."""
    trio = await Trio.start(urls)
    gone: list[str] = []
    try:
        walker = WholeWalker(trio)
        await walker.begin()
        for moves, fault in walk:
            trio.plan_fault(fault)
            for move in moves:
                gone.append(f"{move} {fault or ''}")
                tally.moves += 1
                await _make(move, walker, trio)
            trio.plan_fault(None)
    except Differ as differ:
        raise Differ(f"{differ}\nafter:\n" + "\n".join(gone)) from None
    finally:
        tally.steps += trio.steps
        tally.faults += trio.faults
        tally.answers += trio.answers
        await trio.close()
    tally.walks += 1


async def _make(move: Move, walker: WholeWalker, trio: Trio) -> None:
    if move.make is None:
        await trio.pass_time(move.ms)
        return
    with contextlib.suppress(Crash, BackendError):  # the same error of all of them is an answer
        await move.make(walker)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.property.walk", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    minutes = parser.parse_args().minutes
    tally = Tally()
    until = time.monotonic() + minutes * 60
    logging.disable()  # streams are lost all the time
    with running_servers() as urls:
        print(f"memory, {', '.join(urls)}: {minutes} minutes")
        try:
            while time.monotonic() < until:
                explore(urls, tally, 50, fixed=False, until=until)
        finally:
            print(tally)


if __name__ == "__main__":
    main()
