"""How the agents of an env have done over the last minute, from the records of their runs. Pure."""

from collections import deque
from collections.abc import Iterable
from typing import Final

import msgspec

from reach.envelope.codes import TABLE
from reach.envelope.receipt import Status
from reach.events.traced import Record, int_of, text_of

WINDOW_US = 60_000_000
MAX_RUNS = 200_000
_STATUS: Final = {line.code: line.status for line in TABLE}


class Pace(msgspec.Struct, frozen=True):
    """What one agent has done within the window.

    Attributes:
        runs: How many of its runs have ended.
        per_s: The same in a second.
        success: The part of them that was a success, 0 to 1; None: there were none.
        p50_ms, p99_ms: How long they took: half of them, and 99 of 100, took no longer.
    """

    runs: int = 0
    per_s: float = 0.0
    success: float | None = None
    p50_ms: float | None = None
    p99_ms: float | None = None


class Window:
    """The runs that have ended within the last minute; the newest so many."""

    def __init__(self, window_us: int = WINDOW_US) -> None:
        self._window_us = window_us
        self._runs: deque[tuple[int, str, bool, int]] = deque(maxlen=MAX_RUNS)

    def take(self, records: Iterable[Record]) -> None:
        """Note the runs among them; what a handler asked for or gave too late is none."""
        for record in records:
            status = _STATUS.get(text_of(record, "code"))
            if text_of(record, "point") == "agent.completed" and status is not None:
                run = int_of(record, "at_us"), text_of(record, "agent"), status is Status.SUCCESS
                self._runs.append((*run, int_of(record, "duration_us")))

    def paces(self, now_us: int) -> dict[str, Pace]:
        """By agent; what is older than the window is let go."""
        self._runs = deque((run for run in self._runs if run[0] > now_us - self._window_us), maxlen=MAX_RUNS)
        by_agent: dict[str, list[tuple[bool, int]]] = {}
        for _, agent, ok, took_us in self._runs:
            by_agent.setdefault(agent, []).append((ok, took_us))
        return {agent: self._pace(runs) for agent, runs in by_agent.items()}

    def _pace(self, runs: list[tuple[bool, int]]) -> Pace:
        took = sorted(us for _, us in runs)
        return Pace(
            runs=len(runs),
            per_s=len(runs) * 1_000_000 / self._window_us,
            success=sum(ok for ok, _ in runs) / len(runs),
            p50_ms=_rank(took, 50) / 1000,
            p99_ms=_rank(took, 99) / 1000,
        )


def _rank(took: list[int], percent: int) -> int:
    return took[max(-(-len(took) * percent // 100), 1) - 1]
