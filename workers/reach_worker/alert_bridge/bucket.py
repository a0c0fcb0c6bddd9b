"""How many messages a chat takes in a minute."""

from collections import deque

MINUTE_MS = 60_000


class Bucket:
    """So many tokens; each comes back a minute after it was spent. So no minute ever has more, which a bucket that fills evenly cannot say.

    Moments by a monotonic clock, as arguments.
    """

    def __init__(self, per_minute: int) -> None:
        self._per_minute = per_minute
        self._spent_at_ms: deque[int] = deque()

    def free(self, now_ms: int) -> int:
        """How many there are now."""
        while self._spent_at_ms and now_ms - self._spent_at_ms[0] >= MINUTE_MS:
            self._spent_at_ms.popleft()
        return self._per_minute - len(self._spent_at_ms)

    def wait_ms(self, now_ms: int) -> int:
        """Until there is one."""
        return 0 if self.free(now_ms) > 0 else self._spent_at_ms[0] + MINUTE_MS - now_ms

    def spend(self, now_ms: int) -> None:
        """Take one, which must be there."""
        if self.free(now_ms) <= 0:
            raise ValueError("no token is left")
        self._spent_at_ms.append(now_ms)
