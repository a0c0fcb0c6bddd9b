"""The router's side: the doors, route, due."""

from collections.abc import Iterable, Sequence
from typing import Literal

from reach import ids
from reach.backend.keys import GROUP_ROUTERS
from reach.backend.memory_backend.due import due
from reach.backend.memory_backend.health import open_rows
from reach.backend.memory_backend.route import route
from reach.backend.memory_backend.side import Side
from reach.backend.memory_backend.streams import Fields, is_ahead, parse_id
from reach.backend.steps import Circuits, Decision, DueReport, RouteResult, WorkEntry


class RouterSide(Side):
    """What a router does; see `reach.backend.port` for what each method promises."""

    async def read_work(
        self, worker: str, partitions: Sequence[int], max_entries: int, block_ms: int
    ) -> list[WorkEntry]:
        # By door first, then by partition: no partition's ingress comes before another one's returned work.
        doors = zip(*(self._keys.work(partition) for partition in partitions), strict=True)
        keys = [(partition, key) for door in doors for partition, key in zip(partitions, door, strict=True)]

        def step() -> list[WorkEntry]:
            now_ms = self._store.now_ms()
            return [
                WorkEntry(_kind(key), partition, key, entry_id, fields)
                for partition, key in keys
                for entry_id, fields in self._own_group(key, GROUP_ROUTERS).read(worker, max_entries, now_ms)
            ]

        return await self._wait("read_work", [key for _, key in keys], step, block_ms)

    async def own_work(self, worker: str, partition: int) -> list[WorkEntry]:
        def step() -> list[WorkEntry]:
            found: list[WorkEntry] = []
            for key in self._keys.work(partition):
                own = self._own_group(key, GROUP_ROUTERS).own(worker, self._store.now_ms())
                found += self._whole(partition, key, own)
            return found

        return await self._step("own_work", step)

    async def claim_work(self, worker: str, partition: int, idle_ms: int, max_entries: int = 100) -> list[WorkEntry]:
        def step() -> list[WorkEntry]:
            found: list[WorkEntry] = []
            for key in self._keys.work(partition):
                group = self._own_group(key, GROUP_ROUTERS)
                claimed, _ = group.autoclaim(worker, idle_ms, max_entries - len(found), self._store.now_ms())
                found += [WorkEntry(_kind(key), partition, key, entry_id, fields) for entry_id, fields in claimed]
            return found

        return await self._step("claim_work", step)

    def _whole(self, partition: int, key: str, entries: list[tuple[str, Fields | None]]) -> list[WorkEntry]:
        """Those that have a body; the others are acknowledged, else they would come again for ever."""
        self._discard(key, GROUP_ROUTERS, [entry_id for entry_id, fields in entries if fields is None])
        return [
            WorkEntry(_kind(key), partition, key, entry_id, fields)
            for entry_id, fields in entries
            if fields is not None
        ]

    async def route(self, partition: int, decisions: Sequence[Decision]) -> list[RouteResult]:
        return await self._step("route", lambda: route(self._partition(partition), decisions))

    async def finish_work(self, partition: int, entries: Iterable[WorkEntry]) -> None:
        def step() -> None:
            now_ms = self._partition(partition).now_ms
            for entry in entries:
                self._discard(entry.stream, GROUP_ROUTERS, [entry.id])
                stream = self._store.stream(entry.stream)
                if stream is not None and is_ahead(parse_id(entry.id), now_ms):
                    stream.rewind(now_ms)

        await self._step("finish_work", step)

    async def drop_consumer(self, consumer: str, partitions: Sequence[int], agent_id: str = "") -> None:
        def step() -> None:
            for partition in partitions:
                self._sweep(partition, agent_id, consumer, 0)

        await self._step("drop_consumer", step)

    async def sweep(self, partition: int, agent_id: str = "", idle_ms: int = 600_000) -> int:
        return await self._step("sweep", lambda: self._sweep(partition, agent_id, "", idle_ms))

    def _sweep(self, partition: int, agent_id: str, consumer: str, idle_ms: int) -> int:
        gone = 0
        for key, name in self._keys.groups(partition, agent_id).items():
            stream = self._store.stream(key) if self._store.type_of(key) == "stream" else None
            group = stream.group(name) if stream is not None else None
            gone += group.sweep(consumer, idle_ms, self._store.now_ms()) if group is not None else 0
        return gone

    async def open_doors(self, partition: int) -> int:
        def step() -> int:
            mended = 0
            for key, group in self._keys.groups(partition).items():
                wrong = self._store.type_of(key) not in {None, "stream"}
                self._own_group(key, group)
                mended += self._own_stream(key).rewind(self._store.now_ms()) or wrong
            return mended

        return await self._step("open_doors", step)

    async def worker_silence_ms(self, partition: int) -> int | None:
        def step() -> int | None:
            key = self._keys.tick(partition)
            stored = self._store.hash(key) if self._store.type_of(key) == "hash" else None
            at_ms = None if stored is None else ids.count_of(stored.get("last", b""))
            return None if at_ms is None else self._store.now_ms() - at_ms

        return await self._step("worker_silence_ms", step)

    async def circuits(self, partition: int) -> Circuits:
        def step() -> Circuits:
            key = self._keys.circuit()
            told = self._store.hash(key) if self._store.type_of(key) == "hash" else None
            are = {f"{name}/{partition}": row.told for name, row in open_rows(self._partition(partition)).items()}
            return Circuits(are, dict(told or {}))

        return await self._step("circuits", step)

    async def due(self, partition: int, msg_id: str = "") -> DueReport:
        return await self._step("due", lambda: due(self._partition(partition), msg_id))


def _kind(key: str) -> Literal["ingress", "again", "receipts"]:
    if key.endswith("}:receipts"):
        return "receipts"
    return "again" if key.endswith("}:again") else "ingress"
