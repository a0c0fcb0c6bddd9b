"""What is cancelled in the moment in which it is taken: the hint comes before the answer of the take."""

import asyncio

from reach.backend.hinting import written
from reach.backend.keys import KeySpace
from reach.backend.memory_backend import MemoryBackend, Store
from reach.delivery.hints import EARLY_MS, Hints
from reach.delivery.inbox import Hands, Hold
from reach.testing import ManualClock


class Listener:
    """An instance that listens, and holds what it is told to."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = Store(self.clock)
        self.backend = MemoryBackend(store=self.store)
        self.held: Hands = {}
        self.lost: list[Hold] = []
        self.hints = Hints(
            self.backend, "a1", "i1", clock=self.clock, holds=lambda: self.held, on_lost=self.lost.append
        )

    def say(self, hand: str) -> None:
        self.store.say(KeySpace("dev").hint(0, "a1"), written("normal", hand))

    async def run(self) -> None:
        """One run; so much time passes as it needs."""
        running = asyncio.create_task(self.hints.run_once())
        while not running.done():
            for _ in range(10):
                await asyncio.sleep(0)
            self.clock.advance(10)
        await running


async def test_it_is_asked_about_once_it_is_held() -> None:
    one = Listener()
    await one.run()  # listens from now on
    one.say("5-1")
    await one.run()
    assert one.lost == []
    one.held = {0: {"normal": ["5-1"]}}
    await one.run()
    assert one.lost == [Hold(0, "normal", "5-1")]
    await one.backend.close()


async def test_not_for_longer_than_a_take_may_be_under_way() -> None:
    one = Listener()
    await one.run()
    one.say("5-1")
    said_at_ms = one.clock.monotonic_ms()
    while one.clock.monotonic_ms() < said_at_ms + EARLY_MS + 1_000:
        await one.run()
    one.held = {0: {"normal": ["5-1"]}}
    await one.run()
    assert one.lost == []
    await one.backend.close()
