"""How full an agent is between two beats: what its beat said, what was sent since, and what it must have done meanwhile. Pure.

A beat is up to six seconds old when it is used, and an agent that was idle then has been chosen by everybody since. So what it has is
carried on: each message that is sent adds one, and what runs ends at the pace at which the agent answers. And with each message that is
handed over, the step that does it counts what lies with the agent: that is the truth, whoever has sent it.
"""

import math
from collections import deque
from collections.abc import Mapping

from reach.routing.agents import History

#: The sends of so long before are remembered: a beat is heard no later than that.
LATE_MS = 8_000
MAX_SENDS = 256
NOWHERE: Mapping[int, float] = {}


class Level:
    """What one agent has. Moments by the clock of the backend."""

    __slots__ = (
        "_answers_ms",
        "_at_ms",
        "_beat_at_ms",
        "_counted",
        "_counted_at_ms",
        "_level",
        "_sends",
        "_slots",
        "_then",
    )

    def __init__(self) -> None:
        self._level = 0.0
        self._at_ms = self._beat_at_ms = self._counted_at_ms = 0
        self._counted: Mapping[int, float] = NOWHERE  # partition -> what lay there, when the whole level was `then`
        self._then = 0.0
        self._slots = 1
        self._answers_ms = 1.0
        self._sends: deque[int] | None = None  # made with the first: most of thousands are never chosen

    def hear(self, history: History, answers_ms: float) -> None:
        """A beat says how many run: less than its slots, and nothing waits; all of them, and what waited before may wait still."""
        if history.at_ms <= self._beat_at_ms:
            return
        self._answers_ms, self._slots = max(answers_ms, 1.0), max(history.slots, 1)
        if history.at_ms <= self._counted_at_ms:  # what was counted since knows better
            self._beat_at_ms = history.at_ms
            return
        full = history.inflight >= history.slots
        before, until_ms = self._level, self._at_ms
        self._level, self._at_ms, self._beat_at_ms = history.inflight - history.beside, history.at_ms, history.at_ms
        for sent_ms in self._sends or ():
            if sent_ms > history.at_ms:
                self.drain(sent_ms)
                self._level += 1
        if full and until_ms:
            self.drain(until_ms)
            self._level = max(self._level, before)

    def send(self, now_ms: int) -> None:
        """One more."""
        self.drain(now_ms)
        self._level += 1
        if self._sends is None:
            self._sends = deque(maxlen=MAX_SENDS)
        while self._sends and self._sends[0] < now_ms - LATE_MS:
            self._sends.popleft()
        self._sends.append(now_ms)

    def count(self, partition: int, lies: int, now_ms: int) -> None:
        """So many messages lie with it in this partition, running or queued. What it has in others was counted with their hand-overs."""
        level = self.drain(now_ms)
        done = level / self._then if self._then > 0 else 0.0
        self._counted = {known: number * done for known, number in self._counted.items()} | {partition: lies}
        self._level = self._then = sum(self._counted.values())
        self._counted_at_ms = max(now_ms, self._counted_at_ms)

    def drain(self, now_ms: int) -> float:
        """Carry on to this moment: all slots work while something waits, then ever fewer."""
        left_ms = now_ms - self._at_ms
        if left_ms <= 0:
            return self._level
        self._at_ms = now_ms
        if not self._level:
            return 0.0
        waits = self._level - self._slots
        if waits > 0:
            busy_ms = waits * self._answers_ms / self._slots
            if busy_ms >= left_ms:
                self._level -= left_ms * self._slots / self._answers_ms
                return self._level
            self._level, left_ms = float(self._slots), left_ms - int(busy_ms)
        self._level *= math.exp(-left_ms / self._answers_ms)
        return self._level
