"""What really happened, written by the agents themselves into a file that no fault touches: one line per start and end of a run."""

import os
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple


class Run(NamedTuple):
    """One line. `at_ms` is the machine's wall clock: on one machine the same as Redis TIME. `attempt`: the number of the run, from 1."""

    what: str  # start | end | fail
    msg_id: str
    agent: str
    pid: int
    at_ms: int
    attempt: int


class LedgerFile:
    """Append only; O_APPEND keeps the lines of many processes whole."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(self, what: str, msg_id: str, agent: str, at_ms: int, attempt: int) -> None:
        os.write(self._fd, f"{what} {msg_id} {agent} {os.getpid()} {at_ms} {attempt}\n".encode())


def read(path: Path) -> dict[str, list[Run]]:
    """All lines by msg_id, in the order in which they were written."""
    runs: dict[str, list[Run]] = defaultdict(list)
    for line in path.read_text().splitlines():
        what, msg_id, agent, pid, at_ms, attempt = line.split()
        runs[msg_id].append(Run(what, msg_id, agent, int(pid), int(at_ms), int(attempt)))
    return runs
