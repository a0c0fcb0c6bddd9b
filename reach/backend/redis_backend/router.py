"""The router's side: the doors, route, due."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

import msgspec

from reach import ids
from reach.backend.connection import Reply
from reach.backend.keys import GROUP_ROUTERS
from reach.backend.redis_backend.side import Side
from reach.backend.redis_backend.streams import Entry, pairs_of, reading, text_of
from reach.backend.scripts import script
from reach.backend.steps import (
    Again,
    Circuits,
    Decision,
    DueEvent,
    DueReport,
    Refuse,
    RouteResult,
    WorkEntry,
)
from reach.envelope.circuit import LISTED, row_of
from reach.errors import BackendError

MAX_BATCH = 100
MAX_BATCH_BYTES = 1 << 20

Kind = Literal["ingress", "again", "receipts"]
_pack = msgspec.msgpack.Encoder().encode


def _kind(stream: str) -> Kind:
    if stream.endswith("}:receipts"):
        return "receipts"
    return "again" if stream.endswith("}:again") else "ingress"


class RouterSide(Side):
    """What a router does; see `reach.backend.port` for what each method promises."""

    async def read_work(
        self, worker: str, partitions: Sequence[int], max_entries: int, block_ms: int
    ) -> list[WorkEntry]:
        # By door first, then by partition: no partition's ingress comes before another one's returned work.
        doors = zip(*(self._keys.work(partition) for partition in partitions), strict=True)
        cursors = {stream: ">" for door in doors for stream in door}
        where = {stream: partition for partition in partitions for stream in self._keys.work(partition)}
        read = await self._streams.read_group(GROUP_ROUTERS, worker, cursors, max_entries, block_ms)
        return [
            WorkEntry(_kind(stream), where[stream], stream, entry.id, entry.fields or {})
            for stream, entries in read
            for entry in entries
        ]

    async def own_work(self, worker: str, partition: int) -> list[WorkEntry]:
        found: list[WorkEntry] = []
        for stream in self._keys.work(partition):
            entries = await self._streams.own(stream, GROUP_ROUTERS, worker)
            found += await self._whole(partition, stream, entries)
        return found

    async def claim_work(self, worker: str, partition: int, idle_ms: int, max_entries: int = 100) -> list[WorkEntry]:
        found: list[WorkEntry] = []
        for stream in self._keys.work(partition):
            if len(found) >= max_entries:
                break
            left = max_entries - len(found)
            entries = await self._streams.claim(stream, GROUP_ROUTERS, worker, idle_ms, left)
            found += await self._whole(partition, stream, entries)
        return found

    async def _whole(self, partition: int, stream: str, entries: list[Entry]) -> list[WorkEntry]:
        whole = await self._streams.whole(stream, GROUP_ROUTERS, entries)
        return [WorkEntry(_kind(stream), partition, stream, entry.id, entry.fields or {}) for entry in whole]

    async def route(self, partition: int, decisions: Sequence[Decision]) -> list[RouteResult]:
        results: list[RouteResult] = []
        for batch in _batches([_encoded(decision) for decision in decisions]):
            packed, envelopes = zip(*batch, strict=True)
            counts = (len(batch), self._bounds.max_dead)
            reply = await self._link.run(script("route"), self._keys.due(partition), *counts, *packed, *envelopes)
            results += [_result(verdict) for verdict in reply]
        return results

    async def finish_work(self, partition: int, entries: Iterable[WorkEntry]) -> None:
        finished = list(entries)
        for stream in self._keys.work(partition):
            ids = [entry.id for entry in finished if entry.stream == stream]
            await self._streams.discard(stream, GROUP_ROUTERS, ids)

    async def drop_consumer(self, consumer: str, partitions: Sequence[int], agent_id: str = "") -> None:
        for partition in partitions:
            await self._sweep(partition, agent_id, consumer, 0)

    async def sweep(self, partition: int, agent_id: str = "", idle_ms: int = 600_000) -> int:
        return await self._sweep(partition, agent_id, "", idle_ms)

    async def _sweep(self, partition: int, agent_id: str, consumer: str, idle_ms: int) -> int:
        groups = self._keys.groups(partition, agent_id)
        calls = [(key, group, consumer, idle_ms) for key, group in groups.items()]
        return _sum(await self._link.run_each(script("sweep"), calls))

    async def open_doors(self, partition: int) -> int:
        calls = [(key, "stream", group) for key, group in self._keys.groups(partition).items()]
        return _sum(await self._link.run_each(script("heal_key"), calls))

    async def circuits(self, partition: int) -> Circuits:
        # What is no hash has none; who writes there mends it.
        key = self._keys.health(partition)
        asked: list[list[Any]] = [["TIME"], ["HGET", key, LISTED], ["HGETALL", self._keys.circuit()]]
        time, listed, told = await self._link.batch(asked)
        names = sorted(set(listed.split())) if isinstance(listed, bytes) else []
        (rows,) = await self._link.batch([["HMGET", key, *names]]) if names else ([],)
        now_ms = int(time[0]) * 1000 + int(time[1]) // 1000
        found = zip(names, [] if isinstance(rows, BackendError) else rows, strict=False)
        open_rows = {text_of(name): row_of(stored, now_ms) for name, stored in found}
        are = {f"{name}/{partition}": row.told for name, row in open_rows.items() if row.opened_at_ms}
        return Circuits(
            are, {text_of(k): v for k, v in pairs_of([] if isinstance(told, BackendError) else told).items()}
        )

    async def worker_silence_ms(self, partition: int) -> int | None:
        time, last = await self._link.batch([["TIME"], ["HGET", self._keys.tick(partition), "last"]])
        at_ms = None if last is None or isinstance(last, BackendError) else ids.count_of(text_of(last))
        return None if at_ms is None else int(time[0]) * 1000 + int(time[1]) // 1000 - at_ms

    async def due(self, partition: int, msg_id: str = "") -> DueReport:
        reply = await self._link.run(script("due"), self._keys.due(partition), msg_id)
        now_ms, more, next_at_ms, grace_until_ms, deadline_at_ms, *events = reply
        return DueReport(
            events=tuple(_event(event) for event in events),
            more=more == 1,
            next_at_ms=next_at_ms,
            now_ms=now_ms,
            grace_until_ms=grace_until_ms,
            deadline_at_ms=deadline_at_ms,
        )


def _sum(replies: Sequence[Reply]) -> int:
    for reply in replies:
        if isinstance(reply, BackendError):
            raise reply
    return sum(replies)


def _encoded(decision: Decision) -> tuple[bytes, bytes]:
    """A decision as `route` reads it, and the bytes that go beside it."""
    entry = decision.entry
    shared: dict[str, Any] = {"x": entry.stream, "id": entry.id}
    if isinstance(decision, Refuse):
        dead = {name: text_of(value) for name, value in decision.dead.items() if name != "e"}
        # The msgpack of Redis knows no bytes but text.
        packed = _pack(shared | {"k": "r", "r": decision.mailbox, "re": text_of(decision.receipt), "d": dead})
        return packed, decision.dead.get("e", b"")
    if isinstance(decision, Again):
        fields = {
            "k": "a",
            "m": decision.msg_id,
            "l": decision.leg,
            "h": decision.hand,
            "s": decision.state.value,
            "n": decision.attempt,
            "p": [decision.plan, *decision.others.values()],
            "ls": [decision.leg, *decision.others],
            "pr": decision.processing_ms,
            "to": decision.total_ms,
        }
        return _pack(shared | fields), b""
    fields = {
        "k": "s",
        "m": decision.msg_id,
        "H": decision.head,
        "p": decision.plans,
        "r": decision.reply_to,
        "o": decision.notice,
        "mo": decision.max_open,
        "ms": decision.max_open_sender,
    }
    return _pack(shared | fields), decision.envelope


def _batches(items: list[tuple[bytes, bytes]]) -> Iterator[list[tuple[bytes, bytes]]]:
    """At most 100 decisions or 1 MiB in one call: a script holds up everybody else. One that is larger goes alone."""
    batch: list[tuple[bytes, bytes]] = []
    size_bytes = 0
    for item in items:
        item_bytes = len(item[0]) + len(item[1])
        if batch and (len(batch) >= MAX_BATCH or size_bytes + item_bytes > MAX_BATCH_BYTES):
            yield batch
            batch, size_bytes = [], 0
        batch.append(item)
        size_bytes += item_bytes
    if batch:
        yield batch


def _result(reply: Reply) -> RouteResult:
    verdict, known = reply[0].decode(), text_of(reply[1])
    if verdict == "error":
        return RouteResult("error", error=known)
    return RouteResult(verdict, tuple(map(text_of, reply[3:])), known, lying=int(reply[2]))


def _event(reply: Reply) -> DueEvent:
    msg_id, leg, what, agent, instance, attempt, code = reply
    with reading("what was due", msg_id=text_of(msg_id)):
        return DueEvent(
            text_of(msg_id), int(leg), text_of(what), text_of(agent), text_of(instance), int(attempt), text_of(code)
        )
