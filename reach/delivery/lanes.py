"""Which lane of which partition comes next, for an inbox that lies in several of them. Pure.

Within one partition the step `take` keeps this order by itself; over several nobody but the one who takes can.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from reach.backend.keys import LANES

#: Every eighth message is looked for in the lowest lane first, so that none waits for ever; `take` counts the same way.
LOW_TURN = 8


class Next(NamedTuple):
    """Take at most so many of this lane there."""

    lane: str
    partition: int
    most: int


class LaneOrder:
    """High before normal before low, every eighth the other way round, and within a lane one partition after the other."""

    def __init__(self) -> None:
        self._served = dict.fromkeys(LANES, -1)

    def choose(self, waiting: Mapping[str, Collection[int]], *, free: int, turn: int) -> Next | None:
        """What is to be taken now; None: nothing waits, or there is no room.

        Args:
            waiting: Lane -> the partitions in which something lies.
            free: How many more may be taken.
            turn: How many messages have been taken before.
        """
        until_low = LOW_TURN - 1 - turn % LOW_TURN
        for lane in LANES if until_low else reversed(LANES):
            there = waiting.get(lane)
            if there and free > 0:
                last = self._served[lane]
                partition = min(there, key=lambda one: (one <= last, one))
                self._served[lane] = partition
                return Next(lane, partition, min(free, until_low or 1))
        return None
