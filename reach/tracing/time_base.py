"""The moments of hop records: those of Redis, guessed from a clock of this process."""

import time
from collections.abc import Awaitable, Callable

from reach.clock import Clock, SystemClock

SYNC_EVERY_US = 10_000_000
ASK_AGAIN_US = 1_000_000
GOOD_ERROR_US = 10_000
#: two clocks part by no more than one part in so many
DRIFT = 5_000
SYNC_SAMPLES = 8


class TimeBase:
    """Moments of Redis, guessed from a clock of this process that never goes back; exact to less than half a round trip.

    Before the first `sync` it says what the clock of this machine says, or the fallback: good enough for records, for no decision.
    """

    def __init__(
        self, monotonic_us: Callable[[], int] | None = None, *, fallback_us: Callable[[], int] | None = None
    ) -> None:
        self._monotonic_us = monotonic_us or _monotonic_us
        self._offset_us = (fallback_us or _wall_us)() - self._monotonic_us()
        self._synced_at_us: int | None = None
        self._error_us = 0
        self._ask_at_us: int | None = None

    def now_us(self) -> int:
        """Unix µs, by the clock of Redis."""
        return self.at_us(self.mark())

    def mark(self) -> int:
        """This moment, to be told by `at_us` later, when more may be known of the clock of Redis."""
        return self._monotonic_us()

    def at_us(self, mark: int) -> int:
        """When a mark was made, by the clock of Redis."""
        return mark + self._offset_us

    def stale(self) -> bool:
        """Whether it is time to ask Redis again: every 10 s, every second while the answers are held up."""
        return self._ask_at_us is None or self._monotonic_us() >= self._ask_at_us

    async def sync(self, ask_ms: Callable[[], Awaitable[int]]) -> None:
        """Ask Redis a few times (`backend.now_ms`) and set the offset.

        An answer that was held up (a server that stood still, a slow network) is worth no more than half its round trip: it is taken
        only where nothing better is known, or where it contradicts that, because the clock of Redis has stepped.
        """
        offset_us, error_us, after = await self._measure(ask_ms)
        known_us = self._error_us + (after - (self._synced_at_us or after)) // DRIFT
        first = self._synced_at_us is None
        if first or error_us <= known_us or abs(offset_us - self._offset_us) > error_us + known_us:
            self._offset_us, self._error_us, self._synced_at_us = offset_us, error_us, after
        self._ask_at_us = after + (SYNC_EVERY_US if self._error_us <= GOOD_ERROR_US else ASK_AGAIN_US)

    async def _measure(self, ask_ms: Callable[[], Awaitable[int]]) -> tuple[int, int, int]:
        """The offset, how wrong it may be, and when it was known.

        An answer is a whole ms, read at some moment of its round trip, so each gives a lowest and a highest offset; what they have in
        common is narrower than any of them, and than a ms. One that was held up is the last: the next might be as well.
        """
        low, high, after = 0, 0, 0
        for sample in range(SYNC_SAMPLES):
            before = self._monotonic_us()
            moment_us = await ask_ms() * 1000
            after = self._monotonic_us()
            least, most = moment_us - after, moment_us + 1000 - before
            if sample and max(low, least) <= min(high, most):
                low, high = max(low, least), min(high, most)
            else:
                low, high = least, most  # the first, or a clock that has been set between two
            if after - before > GOOD_ERROR_US:
                break
        return (low + high) // 2, (high - low) // 2, after


def time_base(clock: Clock) -> TimeBase:
    """The moments of hop records, by this clock."""
    if isinstance(clock, SystemClock):
        return TimeBase()
    return TimeBase(lambda: clock.monotonic_ms() * 1000, fallback_us=lambda: clock.wall_ms() * 1000)


def _monotonic_us() -> int:
    return time.monotonic_ns() // 1000


def _wall_us() -> int:
    return SystemClock().wall_ms() * 1000
