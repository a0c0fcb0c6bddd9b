"""Remove the guards one at a time: each must be caught by the test that the table names. A survivor means that a test is missing.

python -m tests.mutants                    all of them, two at a time
python -m tests.mutants hand lua:take      those with one of these words in their name
python -m tests.mutants hand --all-tests   instead of the named test every one of the wide suites that catches them
python -m tests.mutants --share 4          a fourth of them, in turn with the commits, and all whose code or test the last one touched
python -m tests.mutants --list             the table
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from queue import SimpleQueue
from time import monotonic
from typing import TypeVar

from tests.mutants.mutant import Mutant
from tests.mutants.run import Tree, Verdict, engine
from tests.mutants.table import MUTANTS
from tests.rules.files import ROOT

T = TypeVar("T")
J = TypeVar("J")

AT_ONCE = 2
#: what --all-tests runs
CONTRACT = ("tests/contract", "tests/lua", "tests/property")
WIDE = {
    "lua": CONTRACT,
    "memory": CONTRACT,
    "python": ("tests/unit", "tests/contract/test_doors.py", "tests/integration/test_router.py"),
}


def main(words: list[str] | None = None) -> int:
    """Exit code 0: every mutant was caught by its test."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="a part of a mutant's name")
    parser.add_argument("--all-tests", action="store_true", help="show every test that catches it")
    parser.add_argument("--share", type=int, default=1, metavar="N", help="one in so many, in turn with the commits")
    parser.add_argument("--list", action="store_true", help="print the table and run nothing")
    told = parser.parse_args(words)
    chosen = [mutant for mutant in MUTANTS if not told.names or any(name in mutant.name for name in told.names)]
    if told.share > 1:
        chosen = share_of(chosen, told.share, *past())
        print(f"{len(chosen)} of {len(MUTANTS)} mutants: one in {told.share}, and what the last commit touched")
    if not chosen:
        parser.error(f"no mutant has {' or '.join(told.names)} in its name")
    if told.list:
        for mutant in chosen:
            print(f"{mutant.name:45} {mutant.file}\n{'':45} {mutant.test}")
        return 0
    with tempfile.TemporaryDirectory(prefix="reach-mutants-") as place:
        tests = [mutant.test for mutant in chosen]
        trees = [Tree(Path(place).resolve() / str(number), engine(), tests) for number in range(AT_ONCE)]
        try:
            return show_all(trees, chosen) if told.all_tests else check(trees, chosen)
        finally:
            for tree in trees:
                tree.close()


def share_of(mutants: Sequence[Mutant], of: int, turn: int, changed: frozenset[str]) -> list[Mutant]:
    """One in `of`, others with each turn and after so many turns all; and every one whose code or test has changed."""
    return [
        mutant
        for number, mutant in enumerate(mutants)
        if number % of == turn % of or {mutant.file, mutant.test.partition("::")[0]} & changed
    ]


def past() -> tuple[int, frozenset[str]]:
    """How many commits have led here, and which files the last one, or a merge, has touched, or somebody who has not committed yet.

    A clone without its past knows neither: then the commit's own number draws the turn.
    """
    commits = int(git("rev-list", "--count", "HEAD"))
    if commits == 1:
        return int(git("rev-parse", "HEAD")[:8], 16), frozenset()
    return commits, frozenset(git("diff", "--name-only", "-z", "HEAD^1").split("\0")) - {""}


def git(*words: str) -> str:
    """What git says about the project."""
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, check=True, text=True).stdout


def check(trees: Sequence[Tree], mutants: Sequence[Mutant]) -> int:
    """First that the named tests pass without any mutant, then that each fails with its own."""
    started = monotonic()
    by_place = {
        place: sorted({mutant.test for mutant in mutants if mutant.place == place})
        for place in sorted({mutant.place for mutant in mutants})
    }
    sound = True
    for place, outcome in each(trees, list(by_place), lambda tree, place: tree.run(by_place[place], place)):
        if outcome.code != 0 or outcome.ran < len(by_place[place]):
            sound = False
            print(f"without any mutant the tests of {place} do not pass:\n{outcome.output}")
    if not sound:
        return 1
    print(f"Without any mutant every named test passes ({monotonic() - started:.0f} s).", flush=True)
    survivors = 0
    for mutant, verdict in each(trees, mutants, Tree.judge):
        survivors += bool(verdict.fault)
        print(line_of(mutant, verdict), flush=True)
    print(f"{len(mutants)} mutants, {len(mutants) - survivors} caught, {monotonic() - started:.0f} s")
    return int(survivors > 0)


def line_of(mutant: Mutant, verdict: Verdict) -> str:
    """A line of the table."""
    guard = mutant.guard or "-"
    return f"{mutant.name:45} {guard:14} {verdict.seconds:5.1f} s  {verdict.caught_by or 'FAILED: ' + verdict.fault}"


def show_all(trees: Sequence[Tree], mutants: Sequence[Mutant]) -> int:
    """Every test that catches them."""
    for mutant, lines in each(trees, mutants, lambda tree, mutant: tree.catchers(mutant, WIDE[mutant.place])):
        print(mutant.name, *lines, sep="\n    ", flush=True)
    return 0


def each(trees: Sequence[Tree], jobs: Sequence[J], run: Callable[[Tree, J], T]) -> Iterator[tuple[J, T]]:
    """Every job with what came of it, as they end: as many at once as there are trees, each with one of its own."""
    free: SimpleQueue[Tree] = SimpleQueue()
    for tree in trees:
        free.put(tree)

    def one(job: J) -> T:
        tree = free.get()
        try:
            return run(tree, job)
        finally:
            free.put(tree)

    with ThreadPoolExecutor(len(trees)) as pool:
        running = {pool.submit(one, job): job for job in jobs}
        for ended in as_completed(running):
            yield running[ended], ended.result()


if __name__ == "__main__":
    sys.exit(main())
