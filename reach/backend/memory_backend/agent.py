"""The agent's side: inbox, take, bell, settle, renew, progress."""

from collections.abc import Mapping, Sequence

from reach.backend.hinting import Hint, read_hint
from reach.backend.memory_backend import guarding, inboxes, parked, settling, taking
from reach.backend.memory_backend.channels import Ear
from reach.backend.memory_backend.side import Side
from reach.backend.steps import Guard, Parking, Settlement, SettleVerdict, TakeResult


class AgentSide(Side):
    """What an agent does; see `reach.backend.port` for what each method promises."""

    async def open_inbox(self, partition: int, agent_id: str) -> bool:
        return await self._step("open_inbox", lambda: inboxes.open_inbox(self._partition(partition), agent_id))

    async def close_inbox(self, partition: int, agent_id: str) -> bool:
        return await self._step("close_inbox", lambda: inboxes.close_inbox(self._partition(partition), agent_id))

    async def take(
        self,
        partition: int,
        agent_id: str,
        instance: str,
        free: int,
        held: Sequence[tuple[str, str]] | None = None,
        *,
        turn: int = 0,
        only: str = "",
    ) -> TakeResult:
        return await self._step(
            "take", lambda: taking.take(self._partition(partition), agent_id, instance, free, held, turn, only)
        )

    async def waiting(self, agent_id: str) -> dict[str, set[int]]:
        def step() -> dict[str, set[int]]:
            found: dict[str, set[int]] = {}
            for number in range(self.partitions):
                for lane, untaken in taking.untaken(self._partition(number), agent_id).items():
                    found.setdefault(lane, set()).update({number} if untaken else ())
            return found

        return await self._step("waiting", step)

    async def ring(self, agent_id: str, cursors: Mapping[int, Mapping[str, str]], block_ms: int) -> bool:
        behind = {
            self._keys.inbox(partition, agent_id, lane): cursor
            for partition, lanes in cursors.items()
            for lane, cursor in lanes.items()
        }

        def step() -> bool:
            return any(self._behind(key, cursor, 1) for key, cursor in behind.items())

        return await self._wait("ring", list(behind), step, block_ms)

    async def hear(self, agent_id: str, block_ms: int) -> list[Hint]:
        channels = {self._keys.hint(partition, agent_id): partition for partition in range(self.partitions)}
        ear = self._ears.setdefault(agent_id, Ear())
        with self._store.lock:
            self._store.channels.open(ear, channels)

        def step() -> list[Hint]:
            hints = (read_hint(channels[channel], data) for channel, data in ear.taken() if channel in channels)
            return [hint for hint in hints if hint is not None]

        return await self._wait("hear", list(channels), step, block_ms)

    async def settle(self, partition: int, agent_id: str, settlements: Sequence[Settlement]) -> list[SettleVerdict]:
        return await self._step("settle", lambda: settling.settle(self._partition(partition), agent_id, settlements))

    async def park(self, partition: int, agent_id: str, parking: Parking) -> SettleVerdict:
        return await self._step("park", lambda: parked.park(self._partition(partition), agent_id, parking))

    async def renew(self, partition: int, agent_id: str, instance: str, held: Mapping[str, Sequence[str]]) -> set[str]:
        return await self._step("renew", lambda: settling.renew(self._partition(partition), agent_id, instance, held))

    async def progress(self, partition: int, msg_id: str, leg: int, hand: str, notice: bytes | None) -> bool:
        return await self._step(
            "progress", lambda: settling.progress(self._partition(partition), msg_id, leg, hand, notice)
        )

    async def once_take(
        self, partition: int, msg_id: str, leg: int, hand: str, name: str, owner: str, lease_ms: int
    ) -> Guard:
        return await self._step(
            "once_take",
            lambda: guarding.once_take(self._partition(partition), msg_id, leg, hand, name, owner, lease_ms),
        )

    async def once_end(self, partition: int, msg_id: str, name: str, owner: str, value: bytes) -> bool:
        return await self._step(
            "once_end", lambda: guarding.once_end(self._partition(partition), msg_id, name, owner, value)
        )
