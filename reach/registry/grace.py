"""Grace: when time passed without us, or without Redis, the silence of the agents proves nothing. Pure."""

from reach.routing.agents import SUSPECT_MS

#: A look that comes later than this was held up: by Redis, by the network, or by this process itself.
LATE_MS = 3_000
GRACE_MS = 15_000
#: No new grace so soon after the last one began, unless the hold-up was longer than `MUCH_TOO_LATE_MS`: a machine that is
#: always a little late must still notice who is dead.
REST_MS, MUCH_TOO_LATE_MS = 30_000, 5_000
#: An agent that lives beats every 5 s, and is at most so late.
BEATEN_MS = 5_000 + LATE_MS
#: The clock of the backend may go back by so much without anybody caring.
STEP_MS = 1_000


class Grace:
    """Fed with every look at the backend that succeeded; says whether a grace runs and whose beats still count."""

    def __init__(self, pace_ms: int) -> None:
        """`pace_ms`: the longest time between two looks when nothing is wrong."""
        self._pace_ms = pace_ms
        self._now_ms = 0
        self._monotonic_ms = 0
        self._began_ms = 0
        self.until_ms = 0
        #: Who had beaten since then was alive when the hold-up began; 0 = no grace has been given.
        self.floor_ms = 0

    def look(self, now_ms: int, monotonic_ms: int) -> bool:
        """A look succeeded, at this moment of the backend's clock and of ours. True: the backend's clock went back."""
        first = not self._now_ms
        late_ms = max(now_ms - self._now_ms, monotonic_ms - self._monotonic_ms) - self._pace_ms
        stepped_back = now_ms < self._now_ms - STEP_MS
        if not first and (stepped_back or late_ms > LATE_MS):
            self._give(now_ms, late_ms, stepped_back=stepped_back)
        elif not self.runs(now_ms):
            self.floor_ms = 0
        self._now_ms, self._monotonic_ms = now_ms, monotonic_ms
        return stepped_back

    def first_look(self, now_ms: int, monotonic_ms: int, newest_ms: int | None) -> None:
        """The first look. Where even the newest of all beats is old, a hold-up has just ended: this process came too late to see it."""
        self.look(now_ms, monotonic_ms)
        if newest_ms is not None and now_ms - newest_ms > BEATEN_MS:
            self.floor_ms, self._began_ms, self.until_ms = newest_ms - SUSPECT_MS, now_ms, now_ms + GRACE_MS

    def runs(self, now_ms: int) -> bool:
        """Whether nobody may be given up just now."""
        return now_ms < self.until_ms

    def _give(self, now_ms: int, late_ms: int, *, stepped_back: bool) -> None:
        rested = now_ms - self._began_ms >= REST_MS
        if not (rested or stepped_back or late_ms > MUCH_TOO_LATE_MS):
            return
        alive_ms = min(self._now_ms, now_ms) - SUSPECT_MS
        self.floor_ms = min(self.floor_ms, alive_ms) if self.floor_ms and self.runs(now_ms) else alive_ms
        self._began_ms, self.until_ms = now_ms, now_ms + GRACE_MS
