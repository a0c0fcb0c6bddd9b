"""Readers that wait for a write: one future per wait, woken from any thread."""

import asyncio
from collections.abc import Iterable


class Waiter:
    """One wait of one task. It belongs to the loop that made it; `wake` may come from another thread."""

    __slots__ = ("_future", "_loop")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._future: asyncio.Future[None] = self._loop.create_future()

    def wake(self) -> None:
        """End the wait. Twice is once; a waiter whose loop is gone has nobody to wake."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._finish)

    def _finish(self) -> None:
        if not self._future.done():
            self._future.set_result(None)

    async def wait(self) -> None:
        """Return once woken. Cancelling is safe."""
        await self._future


class WaitingRoom:
    """Who waits for which key. Guarded by the store's lock."""

    __slots__ = ("_by_key",)

    def __init__(self) -> None:
        self._by_key: dict[str, set[Waiter]] = {}

    def __len__(self) -> int:
        return len(self._by_key)

    def enter(self, keys: Iterable[str]) -> Waiter:
        waiter = Waiter()
        for key in keys:
            self._by_key.setdefault(key, set()).add(waiter)
        return waiter

    def leave(self, waiter: Waiter, keys: Iterable[str]) -> None:
        for key in keys:
            waiters = self._by_key.get(key, set())
            waiters.discard(waiter)
            if not waiters:
                self._by_key.pop(key, None)

    def wake(self, key: str) -> None:
        for waiter in self._by_key.get(key, ()):
            waiter.wake()

    def wake_all(self) -> None:
        for key in list(self._by_key):
            self.wake(key)
