"""What really happened, written by the agents into a file that no kill touches: one line as a run starts, one as it has ended."""

import os
from pathlib import Path

import msgspec

from reach import Context
from reach.clock import SystemClock


class Line(msgspec.Struct, frozen=True, array_like=True):
    """`what` is start or end; `at_ms` the clock of this machine, which a server on it shares."""

    what: str
    msg_id: str
    agent: str
    attempt: int
    at_ms: int


class RunLog:
    """Append only: O_APPEND keeps the lines of several processes whole. Without a path it writes nothing."""

    def __init__(self, agent: str, path: str | None) -> None:
        self._agent = agent
        self._clock = SystemClock()
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600) if path else None

    def start(self, ctx: Context) -> None:
        self._write("start", ctx)

    def end(self, ctx: Context) -> None:
        self._write("end", ctx)

    def _write(self, what: str, ctx: Context) -> None:
        if self._file is not None:
            line = Line(what, ctx.msg_id, self._agent, ctx.attempt, self._clock.wall_ms())
            os.write(self._file, msgspec.json.encode(line) + b"\n")


def read(path: Path) -> list[Line]:
    """All lines, in the order in which they were written; a last line that is not whole yet is left out."""
    whole, _, _ = path.read_bytes().rpartition(b"\n")
    return [msgspec.json.decode(line, type=Line) for line in whole.splitlines()]
