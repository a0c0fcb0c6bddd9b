"""A clock that stands still until a test moves it."""

import asyncio
import itertools
from collections.abc import Callable

from reach.clock import Cancel


class ManualClock:
    """`advance` moves it, also back (then only the wall: monotonic time never goes back), and runs what has become due."""

    def __init__(self, wall_ms: int = 1_700_000_000_000) -> None:
        self._wall_ms = wall_ms
        self._monotonic_ms = 0
        self._numbers = itertools.count()
        self._calls: dict[int, tuple[int, Callable[[], None]]] = {}

    def monotonic_ms(self) -> int:
        return self._monotonic_ms

    def wall_ms(self) -> int:
        return self._wall_ms

    def advance(self, ms: int) -> None:
        """Move on by so many ms; a negative number is a step back of the wall clock."""
        self._wall_ms += ms
        self._monotonic_ms += max(ms, 0)
        ripe = sorted((at_ms, number) for number, (at_ms, _) in self._calls.items() if at_ms <= self._monotonic_ms)
        for _, number in ripe:
            self._calls.pop(number)[1]()

    @property
    def waiting(self) -> int:
        """How many calls are planned."""
        return len(self._calls)

    async def sleep(self, ms: int) -> None:
        over = asyncio.Event()
        take_back = self.call_later(ms, over.set)
        try:
            await over.wait()
        finally:
            take_back()

    def call_later(self, ms: int, call: Callable[[], None]) -> Cancel:
        number = next(self._numbers)
        self._calls[number] = (self._monotonic_ms + ms, call)

        def take_back() -> None:
            self._calls.pop(number, None)

        return take_back
