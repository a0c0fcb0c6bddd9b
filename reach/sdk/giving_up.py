"""What a caller has started and does not want any more: it is cancelled, by a task that no caller waits for."""

import asyncio
import random

from reach.backend.port import Backend
from reach.clock import Clock
from reach.errors import BackendError
from reach.log import PacedLog, event_log
from reach.sdk.pending import Pending
from reach.service import Tasks, pause_ms

log = event_log("reach.client")

#: so long at least it is tried while Redis cannot be reached; else until the message's own deadline, at which the ledger ends it anyway
LEAST_MS = 2_000
#: so long a client that closes waits for it, in real time: what is waited for is a socket
CLOSE_S = 1.0
#: so many at once, however many are given up together: the connections are for those who wait
AT_ONCE = 8
#: of a total that is over: first the callers hear of it, who are many where Redis is away
LATE_MS = 100


class GivingUp:
    """The cancels of one client that are under way. For one event loop.

    Only what is the caller's alone is cancelled (`Pending.owned`). A message with a key is a piece of business that others of the same
    sender may wait for, or ask for again, and a `send` is meant to go on.
    """

    def __init__(self, backend: Backend, clock: Clock, rng: random.Random) -> None:
        self._backend, self._clock, self._rng = backend, clock, rng
        self._log = PacedLog(log, clock)
        self._tasks = Tasks()
        self._gate = asyncio.Semaphore(AT_ONCE)
        self._forsaken = False

    def __len__(self) -> int:
        """How many are under way."""
        return len(self._tasks)

    def begin(self, pending: Pending, *, after_ms: int = 0) -> None:
        """Nobody waits for it any more. One whose send is on its way meets a tombstone. Twice is once."""
        if self._forsaken or not pending.owned or pending.given_up or pending.done.done():
            return
        pending.given_up = True
        self._tasks.start(self._cancel(pending, after_ms), f"cancel {pending.msg_id}")

    async def _cancel(self, pending: Pending, after_ms: int) -> None:
        left_ms = max(pending.deadline_at_ms - self._clock.monotonic_ms(), LEAST_MS)
        end_ms, failures = self._clock.monotonic_ms() + left_ms, 0
        if after_ms:
            await self._clock.sleep(after_ms)
        while True:
            try:
                async with self._gate:
                    await self._backend.cancel(
                        pending.partition, pending.msg_id, pending.sender, pending.round, left_ms
                    )
            except BackendError as error:
                failures += 1
                wait_ms = pause_ms(failures, self._rng)
                if not error.retryable or self._clock.monotonic_ms() + wait_ms >= end_ms:
                    self._log.warning("not cancelled", msg_id=pending.msg_id, error=error.code)
                    return
                await self._clock.sleep(wait_ms)
                continue
            return

    def forsake(self) -> None:
        """From now on nothing is cancelled: the process counts as killed."""
        self._forsaken = True

    async def close(self) -> None:
        """Let those that are under way end, a second at most."""
        try:
            async with asyncio.timeout(CLOSE_S):
                await self._tasks.ended()
        except TimeoutError:
            log.warning("not cancelled", extra={"count": len(self._tasks)})
        await self._tasks.close()
