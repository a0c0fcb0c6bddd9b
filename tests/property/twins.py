"""Two worlds, one in memory and one on a real server, that go through the same time together."""

import time
from collections.abc import Callable, Coroutine
from typing import Any, Self

from reach.backend.memory_backend import Store
from reach.backend.private_server import PrivateServer
from tests.contract.memory_place import MemoryPlace
from tests.contract.places import RedisPlace
from tests.manual_clock import ManualClock
from tests.property.twin_world import World

BEAT_MS = 2_200
NEAR_MS = 350  # spans of the two worlds that differ by less are equal
_TIRED_MS = 120  # so much real time since the last beat makes it time for the next
_HELD_UP_MS = 300


class HeldUp(Exception):
    """The machine stood still for so long that moments of the two worlds cannot be compared: begin anew."""


class SteppingPlace(MemoryPlace):
    """The memory place with a clock that goes only when it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self._store = Store(self.clock)

    async def pass_time(self, ms: int) -> None:
        self.clock.advance(ms)


class Twins:
    """Real time that passes is counted against the next beat, so that both worlds move by whole beats."""

    def __init__(self, memory_place: SteppingPlace, real_place: RedisPlace, memory: World, real: World) -> None:
        self._memory_place, self._real_place = memory_place, real_place
        self._memory, self._real = memory, real
        self._beat_at = self._began_at = time.monotonic()
        self._told_ms = 0

    @classmethod
    async def start(cls, server: PrivateServer) -> Self:
        memory_place, real_place = SteppingPlace(), RedisPlace("redis", server.url)
        await real_place.forget_all()
        memory = World(memory_place, await memory_place.connect())
        real = World(real_place, await real_place.connect())
        twins = cls(memory_place, real_place, memory, real)
        await memory.begin()
        await real.begin()
        return twins

    async def close(self) -> None:
        await self._real_place.close()
        await self._memory_place.close()

    async def settle_down(self) -> None:
        """Let a beat pass where much real time has gone by since the last one."""
        if self._since_beat_ms() > _TIRED_MS:
            await self.pass_beats(1)

    async def run(self, step: Callable[[World], Coroutine[Any, Any, object]]) -> tuple[object, object]:
        self._follow()
        answers = await step(self._memory), await step(self._real)
        self._follow()
        return answers

    async def look(self) -> tuple[dict[str, object], dict[str, object]]:
        self._follow()
        looks = await self._memory.look(), await self._real.look()
        self._follow()
        return looks

    async def pass_beats(self, beats: int) -> None:
        """Move both worlds on to a whole number of beats."""
        self._follow()
        now = time.monotonic()
        left_ms = beats * BEAT_MS - round((now - self._beat_at) * 1_000)
        self._beat_at = now
        self._memory_place.clock.advance(left_ms)
        await self._real_place.pass_time(left_ms)
        self._follow()

    def _since_beat_ms(self) -> float:
        return (time.monotonic() - self._beat_at) * 1_000

    def _follow(self) -> None:
        """The clock in memory follows the real one, by a millisecond at least; what that is too much is made up for later."""
        behind_ms = round((time.monotonic() - self._began_at) * 1_000) - self._told_ms
        self._told_ms += max(behind_ms, 1)
        self._memory_place.clock.advance(max(behind_ms, 1))
        if self._since_beat_ms() > _HELD_UP_MS:
            raise HeldUp
