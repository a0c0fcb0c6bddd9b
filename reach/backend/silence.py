"""Finds the connections that are dead although nobody has closed them.

That no answer comes proves nothing by itself: a server that is busy, or stands still, will answer everybody later, and who drops his
connections then and asks again makes it worse. So the server is asked by a connection of its own. Where it answers there, it had answered
here as well: this one is dead, and with it, by the same cause, perhaps every other one that is as old.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from reach.backend.wires import Wire
from reach.service import Tasks, cut

#: An answer is overdue after so long (a blocking read's: so long after its end), and so much later where much was sent.
OVERDUE_MS = 400
SLOWEST_BYTES_A_MS = 50
#: So long may an answer be behind that of a question which was asked after it by another connection.
BEHIND_MS = 250
#: The server did not answer the question either: asked again after so long.
AGAIN_MS = 100


class Exchange:
    """One command, or one read, that waits for its answer."""

    def __init__(self, wire: Wire, scope: asyncio.Timeout, *, blocks: bool) -> None:
        self.blocks = blocks
        self.given_up = False
        self.timer: asyncio.TimerHandle | None = None
        self._wire, self._scope = wire, scope
        self._heard = wire.heard

    def goes_on(self) -> bool:
        """Whether something has come since the last look."""
        before, self._heard = self._heard, self._wire.heard
        return self._heard != before

    def give_up(self) -> None:
        """End it: its scope raises TimeoutError."""
        if not self.given_up:
            self.given_up = True
            cut(self._scope)

    def close(self) -> None:
        """It has ended."""
        if self.timer is not None:
            self.timer.cancel()


class Silence:
    """Watches the exchanges of one backend. For one event loop.

    `answers` asks the server by a new connection; False: it did not answer within a short time.
    """

    def __init__(self, answers: Callable[[], Awaitable[bool]]) -> None:
        self._answers = answers
        self._under_way: set[Exchange] = set()
        self._overdue: set[Exchange] = set()
        self._asking = False
        self._tasks = Tasks()

    @contextmanager
    def over(self, wire: Wire, scope: asyncio.Timeout, *, sent_bytes: int, block_ms: int) -> Iterator[Exchange]:
        """Watch an exchange: `scope` is made to end when its connection is found dead (`given_up`)."""
        one = Exchange(wire, scope, blocks=block_ms > 0)
        self._under_way.add(one)
        self._expect(one, block_ms + OVERDUE_MS + sent_bytes // SLOWEST_BYTES_A_MS)
        try:
            yield one
        finally:
            one.close()
            self._under_way.discard(one)
            self._overdue.discard(one)

    async def close(self) -> None:
        """Ask nobody any more."""
        await self._tasks.close()

    def _expect(self, one: Exchange, within_ms: int) -> None:
        one.timer = asyncio.get_running_loop().call_later(within_ms / 1000, self._miss, one)

    def _miss(self, one: Exchange) -> None:
        if one.goes_on():
            self._expect(one, OVERDUE_MS)
            return
        self._overdue.add(one)
        if not self._asking:
            self._asking = self._tasks.start(self._find_out(), "look for dead connections") is not None

    async def _find_out(self) -> None:
        try:
            while suspects := set(self._overdue):
                if not await self._answers():
                    await _pause(AGAIN_MS)
                    continue
                await _pause(BEHIND_MS)
                self._judge(suspects & self._overdue)
        finally:
            self._asking = False  # in the same turn in which nothing was overdue: what is from now on begins anew

    def _judge(self, suspects: set[Exchange]) -> None:
        dead = [one for one in suspects if not self._moves(one)]
        # Reads that may still wait are given up with them: nobody knows whether their connections live.
        for one in (*dead, *(one for one in self._under_way if dead and one.blocks)):
            one.give_up()
            self._overdue.discard(one)

    def _moves(self, one: Exchange) -> bool:
        if not one.goes_on():
            return False
        self._overdue.discard(one)
        self._expect(one, OVERDUE_MS)
        return True


async def _pause(ms: int) -> None:
    """Real time: what is waited for is a socket."""
    await asyncio.sleep(ms / 1000)
