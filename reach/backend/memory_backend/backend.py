"""The memory backend: its life, and what is kept to be read later."""

from collections.abc import Sequence

from reach import ids
from reach.backend.keys import KeySpace
from reach.backend.memory_backend.agent import AgentSide
from reach.backend.memory_backend.conversations import ConversationSide
from reach.backend.memory_backend.depth import DepthSide
from reach.backend.memory_backend.following import FollowingSide
from reach.backend.memory_backend.partition import bounds
from reach.backend.memory_backend.router import RouterSide
from reach.backend.memory_backend.schemas import SchemaSide
from reach.backend.memory_backend.sender import SenderSide
from reach.backend.memory_backend.side import Hook
from reach.backend.memory_backend.store import STORES, Store
from reach.envelope.registration import MAX_PARTITIONS
from reach.errors import ConfigError


class MemoryBackend(SenderSide, RouterSide, AgentSide, ConversationSide, FollowingSide, SchemaSide, DepthSide):
    """The port on dicts, for one process. Neither shared with another process nor durable.

    Args:
        name: `memory://<name>`: backends of one name share one store, also over threads and event loops.
        env: The environment.
        store: Use this store instead of the one of that name (a test's own, with a manual clock).
        before_step: Called with each step's name before it is done; what it raises, the caller gets, and nothing was done.
        after_step: The same after it: the step is done, and its reply is lost.
    """

    def __init__(
        self,
        name: str = "",
        *,
        env: str = "dev",
        store: Store | None = None,
        before_step: Hook | None = None,
        after_step: Hook | None = None,
    ) -> None:
        chosen = store if store is not None else STORES.get(name)
        super().__init__(chosen, KeySpace(env), before_step=before_step, after_step=after_step)
        self.env = env
        self.durability = "memory"

    async def open(self) -> None:
        self._closed = False

        def step() -> bytes:
            return self._peek_hash(self._keys.meta()).get("partitions", b"1")

        stored = await self._step("open", step)
        number = ids.count_of(stored)
        if number is None or not 1 <= number <= MAX_PARTITIONS:
            raise ConfigError(f"partitions of env {self.env} is {stored!r}, not a number from 1 to {MAX_PARTITIONS}")
        self.partitions = number

    async def close(self) -> None:
        self._closed = True
        with self._store.lock:
            for ear in self._ears.values():
                self._store.channels.close(ear)
        self._ears.clear()
        for waiter in list(self._waiting):
            waiter.wake()

    async def now_ms(self) -> int:
        return await self._step("now_ms", self._store.now_ms)

    # ---------------------------------------------------------------- records

    async def record(self, partition: int, batch: bytes) -> None:
        def step() -> None:
            key = self._keys.events(partition)
            stream = self._own_stream(key)
            kept = bounds(self._store, self._keys)
            self._store.append(key, {b"b": batch, b"v": b"1"}, max_entries=kept.max_events)
            stream.trim_before((self._store.now_ms() - kept.events_age_ms, 0))
            for each in range(self.partitions):
                if self._store.type_of(self._keys.dead(each)) == "stream":
                    dead = self._own_stream(self._keys.dead(each))
                    dead.trim_before((self._store.now_ms() - kept.dead_age_ms, 0))
                    dead.trim(kept.max_dead)

        await self._step("record", step)

    async def read_events(
        self, partition: int, cursor: str, block_ms: int, max_entries: int = 100
    ) -> list[tuple[str, bytes]]:
        key = self._keys.events(partition)

        def step() -> list[tuple[str, bytes]]:
            entries = self._behind(key, cursor, max_entries)
            if not entries and self._ends_before(key, cursor):
                entries = self._behind(key, "0-0", max_entries)
            return [(entry_id, fields.get(b"b", b"[]")) for entry_id, fields in entries]

        return await self._wait("read_events", [key], step, block_ms)

    async def dead_letters(
        self, partition: int, after: str = "-", max_entries: int = 100
    ) -> list[tuple[str, dict[bytes, bytes]]]:
        def step() -> list[tuple[str, dict[bytes, bytes]]]:
            return self._behind(self._keys.dead(partition), "0-0" if after == "-" else after, max_entries)

        return await self._step("dead_letters", step)

    async def drop_dead(self, partition: int, entry_ids: Sequence[str]) -> int:
        def step() -> int:
            key = self._keys.dead(partition)
            return self._own_stream(key).delete(entry_ids) if self._store.type_of(key) == "stream" else 0

        return await self._step("drop_dead", step)
