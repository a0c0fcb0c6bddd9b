"""Runs tests on copies of the tree: unchanged, and with one mutant in it."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from time import monotonic
from typing import NamedTuple

from tests import servers
from tests.mutants.mutant import Mutant
from tests.rules.files import ROOT, project_files

#: how long one test, and one run, may take: a mutant may well make something wait for ever
TEST_S, RUN_S = 15, 120
#: what a test may raise itself; anything else is raised by what it tests, and then the mutant must say so
SAYS = frozenset({"AssertionError", "ValueError", "KeyError", "IndexError", "StopIteration", "StopAsyncIteration"})
#: what waits in vain
WAITS = frozenset({"Failed", "TimeoutError", "Timeout"})
#: what shows that a mutant is no program any more: it proves nothing
NO_PROGRAM = ("Error compiling script", "nonexistent global variable")


class Failure(NamedTuple):
    """One failed test, and what it said."""

    test: str
    error: str
    where: str
    text: str

    def counts(self, tree: Path, raises: str) -> bool:
        """Whether the test has caught something: by its own word, because what it waits for does not come, or by what was let through."""
        if any(mark in self.text for mark in NO_PROGRAM):
            return False
        own = Path(self.where).is_relative_to(tree / "tests")
        return self.error in WAITS or self.error == raises or (self.error in SAYS and own)


class Outcome(NamedTuple):
    """What a run of pytest has brought."""

    code: int
    ran: int
    failures: tuple[Failure, ...]
    seconds: float
    output: str


class Verdict(NamedTuple):
    """What became of a mutant: caught by a test, or `fault` says why not."""

    mutant: Mutant
    caught_by: str
    seconds: float
    fault: str = ""


class Tree:
    """A copy of the project: every file that git knows, and nothing that was made here. `tests`: those that will be run in it."""

    def __init__(self, place: Path, engine: str, tests: Iterable[str]) -> None:
        self.place, self.engine = place, engine
        self._written = 0
        for path in project_files():
            (place / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / path, place / path)
        self._nursery = subprocess.Popen(
            [sys.executable, "-m", "tests.mutants.nursery", *sorted({test.partition("::")[0] for test in tests})],
            cwd=place,
            env=os.environ | {"PYTHONPATH": f"{place}{os.pathsep}{place / 'workers'}", "REACH_TEST_SERVERS": engine},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def close(self) -> None:
        """End the process that runs the tests."""
        self._nursery.communicate()

    def write(self, path: str, text: str) -> None:
        """Change a file. Python knows a new text by its moment in seconds and its length: each gets a moment of its own."""
        target = self.place / path
        target.write_text(text, encoding="utf-8")
        self._written += 1
        os.utime(target, (target.stat().st_mtime + self._written,) * 2)

    def run(self, tests: Sequence[str], place: str, *, stop: bool = True) -> Outcome:
        """Run tests of the copy, on the backend that suits the place of a mutant. `stop`: at the first that fails."""
        report = self.place / "report.json"
        report.unlink(missing_ok=True)
        words = ["-q", "-p", "no:cacheprovider", "-p", "tests.mutants.witness", f"--timeout={TEST_S}", "--tb=short"]
        words += ["-x"] if stop else []
        words += (
            ["-k", {"lua": f"[{self.engine}", "memory": "[memory", "python": ""}[place]] if place != "python" else []
        )
        started = monotonic()
        code, output = self._pytest([*words, *tests], RUN_S if stop else 20 * RUN_S)
        seconds = monotonic() - started
        if not report.is_file():
            return Outcome(code, 0, (), seconds, output)
        told = json.loads(report.read_text(encoding="utf-8"))
        if not Path(told["reach"]).is_relative_to(self.place):
            raise RuntimeError(f"the copy was to be tested, and not {told['reach']}")
        return Outcome(code, told["ran"], tuple(Failure(**each) for each in told["failures"]), seconds, output)

    def _pytest(self, words: list[str], most_s: float) -> tuple[int, str]:
        output = self.place / "output.txt"
        job = {"words": words, "report": str(self.place / "report.json"), "output": str(output), "most_s": most_s}
        assert self._nursery.stdin is not None
        assert self._nursery.stdout is not None
        self._nursery.stdin.write(json.dumps(job) + "\n")
        self._nursery.stdin.flush()
        code = json.loads(self._nursery.stdout.readline())["code"]
        if code is None:
            raise subprocess.TimeoutExpired(words, most_s)
        return code, output.read_text(encoding="utf-8", errors="replace")

    def judge(self, mutant: Mutant) -> Verdict:
        """Apply a mutant, run its test, take it back."""
        whole = (self.place / mutant.file).read_text(encoding="utf-8")
        self.write(mutant.file, mutant.applied(whole))
        try:
            outcome = self.run([mutant.test], mutant.place)
        except subprocess.TimeoutExpired:
            return Verdict(mutant, "", RUN_S, "its test did not end")
        finally:
            self.write(mutant.file, whole)
        return verdict_of(mutant, outcome, self.place)

    def catchers(self, mutant: Mutant, tests: Sequence[str]) -> list[str]:
        """Every test that fails with the mutant, with what it said."""
        whole = (self.place / mutant.file).read_text(encoding="utf-8")
        self.write(mutant.file, mutant.applied(whole))
        try:
            outcome = self.run(tests, mutant.place, stop=False)
        finally:
            self.write(mutant.file, whole)
        lines = [
            f"{f.test}  {f.error}{'' if f.counts(self.place, mutant.raises) else ' (does not count)'}"
            for f in outcome.failures
        ]
        return lines or [f"none of {outcome.ran} tests, exit {outcome.code}"]


def verdict_of(mutant: Mutant, outcome: Outcome, tree: Path) -> Verdict:
    """Caught only where the test ran and said so itself; not where it could not be collected, or the mutant is no program."""
    if outcome.code == 0 and outcome.ran:
        return Verdict(mutant, "", outcome.seconds, f"SURVIVED {mutant.test}")
    if outcome.code != 1 or not outcome.failures:
        return Verdict(mutant, "", outcome.seconds, f"pytest ended with {outcome.code}:\n{outcome.output[-2000:]}")
    first = outcome.failures[0]
    if not first.counts(tree, mutant.raises):
        return Verdict(mutant, "", outcome.seconds, f"{first.test} failed, but by {first.error}: {first.text[:500]}")
    return Verdict(mutant, first.test, outcome.seconds)


def engine() -> str:
    """The server on which mutants of the Lua steps are tried: the first that is chosen or found."""
    return servers.selected()[0]
