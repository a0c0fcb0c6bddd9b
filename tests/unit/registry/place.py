"""A registry on the memory backend, whose clock the test moves: no sockets, no sleeping."""

import asyncio
from typing import Any

import msgspec

from reach.backend.memory_backend import MemoryBackend, Store
from reach.registry.registrar import Registrar
from tests.manual_clock import ManualClock

MAILBOX = "tester.0123456789abcdef01234567"


class Place:
    """One store with one backend on it, a registrar, and a mailbox that its answers come into."""

    def __init__(self, partitions: int = 1) -> None:
        self.clock = ManualClock()
        self.store = Store(self.clock)
        self.backend = MemoryBackend(env="dev", store=self.store)
        self.backend.partitions = partitions
        self.registrar = Registrar(self.backend, "w1")
        self._read = "0"

    def another(self) -> MemoryBackend:
        """One more backend on the same store."""
        made = MemoryBackend(env="dev", store=self.store)
        made.partitions = self.backend.partitions
        return made

    async def ask(self, data: bytes | dict[str, Any]) -> dict[str, Any]:
        """Put an entry into `control`, let the registrar run, and give its answer."""
        await self.backend.keep_mailbox(MAILBOX, [0])
        entry = data if isinstance(data, bytes) else msgspec.json.encode({"reply_to": MAILBOX, **data})
        await self.backend.send_control(entry)
        await self.registrar.run_once()
        notices = await self.answers()
        assert len(notices) == 1, notices
        return notices[0]

    async def answers(self) -> list[dict[str, Any]]:
        """The notices that have come since the last look."""
        mail = await self.backend.read_mail(MAILBOX, {0: self._read}, 0)
        if mail:
            self._read = mail[-1].id
        return [msgspec.json.decode(entry.data) for entry in mail if entry.kind == "notice"]

    async def register(self, agent_id: str = "a", instance_id: str = "i1", **declared: Any) -> dict[str, Any]:
        """Register one instance."""
        return await self.ask({"op": "register", "agent_id": agent_id, "instance_id": instance_id, **declared})

    def lanes(self, agent_id: str = "a") -> list[str]:
        """The inbox keys of an agent."""
        return self.keys(f":inbox:{agent_id}:")

    def keys(self, part: str) -> list[str]:
        """The keys that have this in their names."""
        return list(filter(lambda key: part in key, self.store.keys()))


async def until_waiting(clock: ManualClock, count: int = 1) -> None:
    """Give way until so many waits stand on the clock."""
    for _ in range(200):
        if clock.waiting >= count:
            return
        await asyncio.sleep(0)
    raise AssertionError(f"{clock.waiting} waits, not {count}")
