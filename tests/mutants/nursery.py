"""A process that has read the libraries and forks one child for each run of pytest: what is tested, each run reads anew.

Run as `python -m tests.mutants.nursery TEST...` in a copy of the tree; the tests are collected once, to see what is to be read ahead.
A line of JSON comes in for each run (`words`, `report`, `output`, `most_s`), one goes out: `code`, or null where it did not end in time.
"""

import contextlib
import importlib
import json
import os
import select
import signal
import sys
from collections.abc import Callable, Sequence
from typing import TextIO

import pytest

#: where the witness writes what it has seen
REPORT = "REACH_MUTANT_REPORT"
#: what is tested, and what tests it: never read ahead
OWN = ("reach", "reach_worker", "tests", "examples", "conftest", "__main__", "__mp_main__")
#: pytest says of a plugin that was read ahead that its own asserts will tell less
QUIET = ("-W", "ignore::pytest.PytestAssertRewriteWarning")


def main() -> None:
    """Serve until the input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    jobs = os.fdopen(os.dup(0), encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    os.dup2(2, 1)  # a child may print where it likes: the answers have a descriptor of their own
    read_ahead(libraries(sys.argv[1:]))
    serve(jobs, answers)


def serve(jobs: TextIO, answers: TextIO) -> None:
    """One run after the other."""
    for line in jobs:
        job = json.loads(line)
        code = run(job["words"], job["report"], job["output"], job["most_s"])
        answers.write(json.dumps({"code": code}) + "\n")
        answers.flush()


def libraries(tests: Sequence[str]) -> list[str]:
    """The modules of others that a collection of these tests reads, in the order in which it reads them."""
    reader, writer = os.pipe()

    def collect() -> int:
        pytest.main(["--collect-only", "-qq", "-p", "no:cacheprovider", *QUIET, *tests])
        with os.fdopen(writer, "w", encoding="utf-8") as out:
            out.write("\n".join(name for name in sys.modules if name.partition(".")[0] not in OWN))
        return 0

    pid = forked(collect, os.devnull)
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8") as told:
        names = told.read().split("\n")
    os.waitpid(pid, 0)
    return names


def read_ahead(names: Sequence[str]) -> None:
    """Import them. One that pytest has made up, or that cannot be imported alone, is read by the run that needs it."""
    for name in names:
        if name not in sys.modules:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)


def run(words: Sequence[str], report: str, output: str, most_s: float) -> int | None:
    """The exit code of pytest in a child that is a copy of this process; None when it had to be killed."""
    ended, ends = os.pipe()

    def test() -> int:
        os.environ[REPORT] = report
        return int(pytest.main([*QUIET, *words]))

    pid = forked(test, output)
    os.close(ends)
    try:
        there, _, _ = select.select([ended], [], [], most_s)
        if not there:
            os.killpg(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
    finally:
        os.close(ended)
    return os.waitstatus_to_exitcode(status) if there else None


def forked(do: Callable[[], int], output: str) -> int:
    """The process id of a child, in a session of its own, that does this and ends with its answer."""
    pid = os.fork()
    if pid:
        return pid
    code = 70
    try:
        os.setsid()
        target = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(target, 1)
        os.dup2(target, 2)
        os.close(target)
        code = do()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


if __name__ == "__main__":
    main()
