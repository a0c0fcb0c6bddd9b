"""How the agents of an env have done over the last minute, from the records of their runs. Pure.

Every run is counted, however many there are. Records that were trimmed or dropped are not there to be counted: what is told is then the
rate over the time whose records there are, or says that it was more.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final

import msgspec

from reach.envelope.codes import TABLE
from reach.envelope.receipt import Status
from reach.events.fields import Record, counts_of, int_of, text_of
from reach.tracing.record import DROPPED

WINDOW_US = 60_000_000
#: Runs are counted by tenths of a second.
TICK_US = 100_000
#: Of an agent in a partition: p50 and p99 are those of its newest so many runs.
MAX_TIMES = 10_000
_STATUS: Final = {line.code: line.status for line in TABLE}


class Pace(msgspec.Struct, frozen=True):
    """What one agent has done within the window.

    Attributes:
        runs: How many of its runs have ended, of those whose records there are.
        per_s: How many ended in a second, over the time whose records there are.
        success: The part of them that was a success, 0 to 1; None: there were none.
        p50_ms, p99_ms: How long they took: half of them, and 99 of 100, took no longer.
        of_s: Over how many seconds, up to now: 60, or less where Redis keeps no more of them.
        at_least: Records of this minute were dropped before they were written, of whichever agent: there may have been more runs.
    """

    runs: int = 0
    per_s: float = 0.0
    success: float | None = None
    p50_ms: float | None = None
    p99_ms: float | None = None
    of_s: float = WINDOW_US / 1e6
    at_least: bool = False


class _Runs:
    """The runs of one agent in one partition."""

    def __init__(self) -> None:
        self.ticks: deque[list[int]] = deque()  # tick, runs, successes
        self.times: deque[tuple[int, int]] = deque(maxlen=MAX_TIMES)  # when, and how long it took

    def end(self, at_us: int, took_us: int, *, ok: bool) -> None:
        tick = at_us // TICK_US
        known = next((one for one in reversed(self.ticks) if one[0] == tick), None)
        if known is None:
            known = [tick, 0, 0]
            self.ticks.append(known)
        known[1] += 1
        known[2] += ok
        self.times.append((at_us, took_us))

    def between(self, since_us: int, until_us: int) -> tuple[int, int]:
        """How many have ended since, and how many of them were a success; what is older, or of a later moment, is let go."""
        self.ticks = deque(
            one for one in self.ticks if since_us < (one[0] + 1) * TICK_US and one[0] * TICK_US < until_us
        )
        return sum(one[1] for one in self.ticks), sum(one[2] for one in self.ticks)


class Window:
    """The runs that have ended within the last minute."""

    def __init__(self, window_us: int = WINDOW_US) -> None:
        self._window_us = window_us
        self._runs: dict[tuple[str, int], _Runs] = {}
        self._whole_since: dict[int, int] = {}
        self._dropped: deque[int] = deque()

    def take(self, records: Iterable[Record], partition: int = 0) -> None:
        """Note the runs among them, and what was dropped; what a handler asked for or gave too late is no run."""
        for record in records:
            point, at_us = text_of(record, "point"), int_of(record, "at_us")
            status = _STATUS.get(text_of(record, "code"))
            if point == "agent.completed" and status is not None:
                runs = self._runs.setdefault((text_of(record, "agent"), partition), _Runs())
                runs.end(at_us, int_of(record, "duration_us"), ok=status is Status.SUCCESS)
            elif (
                point == "gap" and counts_of(record).get(DROPPED, 0) > 0
            ):  # else it tells that some may be, or were trimmed
                self._dropped.append(at_us)

    def missed(self, partition: int, until_us: int) -> None:
        """What was recorded there before this moment, some of it at least, was trimmed before it was read."""
        self._whole_since[partition] = max(until_us, self._whole_since.get(partition, 0))

    def seconds(self, now_us: int) -> float:
        """Of how much of the last minute all records are there: 60, or less where some partition keeps no more."""
        found = (self._seconds(partition, now_us) for partition in self._whole_since)
        return min(found, default=self._window_us / 1e6)

    def paces(self, now_us: int) -> dict[str, Pace]:
        """By agent; what is older than the window is let go."""
        start_us = now_us - self._window_us
        while self._dropped and self._dropped[0] <= start_us:
            self._dropped.popleft()
        by_agent: dict[str, list[tuple[int, int, float, list[int]]]] = {}
        for (agent, partition), runs in list(self._runs.items()):
            since_us = max(start_us, self._whole_since.get(partition, 0))
            # A little of the future is a clock that was compared; much of it was written by nobody who ran anything.
            count, good = runs.between(since_us, now_us + self._window_us)
            if not count:
                del self._runs[agent, partition]
                continue
            took = [us for at_us, us in runs.times if at_us > since_us]
            by_agent.setdefault(agent, []).append((count, good, count / self._seconds(partition, now_us), took))
        of_s = self.seconds(now_us)
        return {agent: self._pace(found, of_s) for agent, found in by_agent.items()}

    def _seconds(self, partition: int, now_us: int) -> float:
        whole_us = min(now_us - self._whole_since.get(partition, 0), self._window_us)
        return max(whole_us, TICK_US) / 1e6

    def _pace(self, found: list[tuple[int, int, float, list[int]]], of_s: float) -> Pace:
        runs = sum(count for count, *_ in found)
        took = sorted(us for *_, times in found for us in times)
        return Pace(
            runs=runs,
            per_s=sum(per_s for _, _, per_s, _ in found),
            success=sum(good for _, good, *_ in found) / runs,
            p50_ms=_rank(took, 50) / 1000 if took else None,
            p99_ms=_rank(took, 99) / 1000 if took else None,
            of_s=of_s,
            at_least=bool(self._dropped),
        )


def _rank(took: list[int], percent: int) -> int:
    return took[max(-(-len(took) * percent // 100), 1) - 1]
