"""A router, agents and clients on one stage, whose records come in the order in which things happened, whoever writes them."""

import json
import random
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from reach.backend.steps import Settlement
from reach.sdk.routers import router_services
from reach.service import Supervisor, until_open
from reach.testing import ManualClock
from reach.tracing.contents import asked_contents
from reach.tracing.hops import HopRecorder
from reach.tracing.joining import Joiner
from reach.tracing.record import HopRecord
from reach.tracing.time_base import TimeBase
from tests.contract.places import ENV, KEYS
from tests.faults.crash_world import CrashWorld
from tests.faults.process import Process

#: what sends and works without the SDK
BOX = "box.1"
SENDER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class _Ticking(TimeBase):
    """No two moments are the same, and all processes have one clock."""

    def __init__(self, clock: ManualClock) -> None:
        at_ms, ticks = -1, 0

        def monotonic_us() -> int:
            nonlocal at_ms, ticks
            at_ms, ticks = clock.monotonic_ms(), ticks + 1 if at_ms == clock.monotonic_ms() else 1
            assert ticks < 1_000, "more marks than a millisecond has room for"
            return at_ms * 1000 + ticks

        super().__init__(monotonic_us, fallback_us=lambda: 0)
        self._offset_us = (clock.wall_ms() - clock.monotonic_ms()) * 1000

    def stale(self) -> bool:
        return False


class Town(CrashWorld):
    """A world in which nobody dies unless told to. Records are of partition 0."""

    _base: TimeBase
    _recorders: dict[str, HopRecorder]

    def _trace(self, name: str, recorder: HopRecorder) -> None:
        """The records of a process of that name are to be told by the one clock."""
        if not hasattr(self, "_base"):
            self._base, self._recorders = _Ticking(self.clock), {}
        recorder.base = self._base
        self._recorders[f"{name}/{len(self._recorders)}"] = recorder

    async def _router(self, process: Process, worker: str) -> None:
        backend = self.backend_for(process)
        await until_open(backend.open, clock=process.clock, rng=random.Random(7), told={"worker": worker})
        hops = HopRecorder(backend.record, TimeBase(), worker=worker, node="here", contents=asked_contents(backend))
        self._trace("router", hops)
        services = router_services(
            backend, hops, range(backend.partitions), worker, clock=process.clock, rng=random.Random(7)
        )
        supervisor = Supervisor(services, clock=process.clock, rng=random.Random(7))
        self.supervisors[process.name] = supervisor
        supervisor.start()

    async def agent(self, name: str, **options: Any) -> Process:
        process = await super().agent(name, **options)
        self._trace(name, self.agents[name].client.recorder)
        return process

    async def client(self, name: str = "client", **options: Any) -> Process:
        process = await super().client(name, **options)
        self._trace(name, self.clients[name].recorder)
        return process

    # ------------------------------------------------------------ by hand

    async def register(self, agent_id: str, **fields: Any) -> None:
        """An agent without the SDK, and the mailbox of a sender without it."""
        await self.stage.eye.keep_mailbox(BOX, [0])
        entry: dict[str, Any] = {
            "op": "register",
            "reply_to": BOX,
            "agent_id": agent_id,
            "instance_id": f"{agent_id}.1",
        }
        entry |= {"env": ENV, "capabilities": [{"name": "work"}], **fields}
        await self.place.append(KEYS.control(), {"c": json.dumps(entry).encode()})
        await self.until(lambda: self.knows(agent_id), f"the registration of {agent_id}")

    async def put(self, made: dict[str, Any]) -> str:
        """XADD an envelope by hand."""
        await self.stage.eye.keep_mailbox(BOX, [0])
        await self.place.append(KEYS.ingress(0, "normal"), {"e": json.dumps(made).encode()})
        return str(made["msg_id"])

    async def work(self, agent_id: str) -> tuple[str, dict[bytes, bytes]]:
        """Read an inbox with XREADGROUP: the hand and the fields of one entry."""
        key = KEYS.inbox(0, agent_id, "normal")
        read: list[str] = []

        async def there() -> bool:
            read.extend(await self.place.read_plain(key, "agent", f"{agent_id}.1"))
            return bool(read)

        await self.until(there, f"work for {agent_id}")
        return read[0], dict(await self.place.entries(key))[read[0]]

    async def settle_by_entry(self, msg_id: str, hand: str, receipt: dict[str, Any]) -> None:
        """XADD a receipt, for a router to settle."""
        fields = {"m": msg_id.encode(), "l": b"0", "h": hand.encode(), "r": json.dumps(receipt).encode()}
        await self.place.append(KEYS.receipts(0), fields)

    async def settle_by_script(self, agent_id: str, settlement: Settlement) -> str:
        """Settle with the published script, as who knows nothing of hop records does."""
        (verdict,) = await self.stage.backend().settle(0, agent_id, [settlement])
        return verdict

    async def mail(self) -> list[dict[str, Any]]:
        """The receipts in the box."""
        return [json.loads(f[b"r"]) for _, f in await self.place.entries(KEYS.mail(0, BOX)) if b"r" in f]

    # ------------------------------------------------------------ what was recorded

    async def forget_records(self) -> None:
        """What has been recorded so far is of no interest."""
        await self.settle()
        await self.flush()
        await self.place.delete(KEYS.events(0))

    async def flush(self) -> None:
        """Have all that is recorded written, also by who is about to die."""
        for recorder in self._recorders.values():
            if len(recorder):
                await recorder.flush()

    async def records(self) -> list[HopRecord]:
        """As the exporter has them: message by message, leg by leg, and of each in the order in which things happened."""
        await self.settle()
        await self.flush()
        batches = [fields[b"b"] for _, fields in await self.place.entries(KEYS.events(0))]
        found = [one for batch in batches for one in msgspec.json.decode(batch, type=list[HopRecord])]
        found = _in_order(found)
        joiner = Joiner()
        joined = [joiner.join(one) for one in found if one.msg_id]
        began = {one.msg_id: number for number, one in reversed([*enumerate(joined)])}
        return sorted(joined, key=lambda one: (began[one.msg_id], one.leg))

    def kind(self, record: HopRecord) -> str:
        """Who has recorded it: `router`, `client` or the name of an agent."""
        for name, recorder in self._recorders.items():
            if recorder._worker == record.worker:
                return name.partition("/")[0]
        return "?"


def _in_order(found: list[HopRecord]) -> list[HopRecord]:
    """By their moments. Of what a script has told only the ms is known here (nothing else is at its very beginning)."""
    by_ms: dict[int, list[HopRecord]] = {}
    for one in sorted(found, key=lambda one: one.at_us):
        by_ms.setdefault(one.at_us // 1000, []).append(one)
    for group in by_ms.values():
        if any(one.at_us % 1000 == 0 for one in group):
            group.sort(key=_rank)
    return [one for _, group in sorted(by_ms.items()) for one in group]


def _rank(one: HopRecord) -> int:
    if one.point == "message.delivered":
        return 4
    if one.at_us % 1000 == 0:
        return 1 if one.point.startswith("agent.") else 3
    return 0 if one.point in {"message.received", "route.matched", "route.sent"} else 2


Act = Callable[[Town], Awaitable[None]]
