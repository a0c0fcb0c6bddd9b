"""A whole router in the test's own loop, on any place, and what a sender and an agent do by hand with plain entries."""

import asyncio
import json
import random
import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Self, TypeVar

from reach.backend.port import Backend
from reach.clock import SystemClock
from reach.sdk.routers import router_services
from reach.service import Supervisor
from reach.tracing.hops import HopRecorder
from reach.tracing.time_base import TimeBase
from tests.contract.places import ENV, KEYS, Place

T = TypeVar("T")
Connect = Callable[[], Awaitable[Backend]]

BOX = "box.1"
WORKER = "w1"


async def until(check: Callable[[], Awaitable[T]], what: str, within_s: float = 5.0) -> T:
    """The first true answer; fails when there is none in time."""
    answer: T | None = None
    try:
        async with asyncio.timeout(within_s):
            while True:
                answer = await check()
                if answer:
                    return answer
                await asyncio.sleep(0.005)
    except TimeoutError:
        raise AssertionError(f"{what} did not come about within {within_s} s; the last answer was {answer!r}") from None


def envelope(**fields: Any) -> dict[str, Any]:
    """An envelope that nothing is wrong with, and what is to be different in it."""
    made: dict[str, Any] = {
        "msg_id": str(uuid.uuid4()),
        "type": "request",
        "timestamp": 1,
        "source": {"agent_id": "tester"},
        "target": {"pattern": "capability:refund"},
        "reply_to": BOX,
        "payload": {"body": {"amount": 1}},
    }
    return made | fields


class Spine:
    """A router on a place. `async with Spine(place) as spine`."""

    def __init__(self, place: Place, backend: Backend, worker: str = WORKER) -> None:
        self.place, self.backend, self.worker = place, backend, worker
        self._agents: list[str] = []
        self.partitions = range(backend.partitions)
        clock = SystemClock()
        # A machine whose clock is an hour ahead: nothing may be decided by it, and no record may show it.
        base = TimeBase(fallback_us=lambda: (clock.wall_ms() + 3_600_000) * 1000)
        self.hops = HopRecorder(backend.record, base, worker=worker, ask_ms=backend.now_ms)
        self.services = router_services(backend, self.hops, self.partitions, worker, clock=clock, rng=random.Random())
        self.supervisor = Supervisor(self.services)

    async def __aenter__(self) -> Self:
        await self.backend.keep_mailbox(BOX, self.partitions)
        self.supervisor.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.supervisor.stop(drain_ms=100)  # a blocking read takes longer; cutting it off is safe
        await self.hops.close()
        await self.backend.drop_consumer(self.worker, self.partitions)  # as a worker does that ends
        for agent_id in self._agents:
            await self.backend.drop_consumer(
                f"{agent_id}.1", self.partitions, agent_id
            )  # where nothing is pending to it

    # ---------------------------------------------------------------- the sender
    async def put(
        self, fields: Mapping[str, bytes], *, entry_id: str = "*", lane: str = "normal", partition: int = 0
    ) -> str:
        """XADD to the ingress by hand."""
        return await self.place.append(KEYS.ingress(partition, lane), fields, entry_id)

    async def send(self, made: dict[str, Any], **options: Any) -> str:
        """Put an envelope into the ingress; its msg_id."""
        await self.put({"e": json.dumps(made).encode()}, **options)
        return str(made["msg_id"])

    async def mail(self, msg_id: str = "", partition: int = 0) -> list[dict[str, Any]]:
        """The receipts in the box, of one message or of all."""
        entries = await self.place.entries(KEYS.mail(partition, BOX))
        receipts = [json.loads(fields[b"r"]) for _, fields in entries if b"r" in fields]
        return [receipt for receipt in receipts if not msg_id or receipt["msg_id"] == msg_id]

    async def receipt(self, msg_id: str, within_s: float = 5.0) -> dict[str, Any]:
        """The one receipt of a message."""
        found = await until(lambda: self.mail(msg_id), f"the receipt of {msg_id}", within_s)
        assert len(found) == 1, found
        return found[0]

    # ---------------------------------------------------------------- the agent
    async def register(self, agent_id: str, *capabilities: str, **fields: Any) -> None:
        """Register by a control entry, as an agent without the SDK does, and wait until every router knows it."""
        declared = {
            "op": "register",
            "reply_to": BOX,
            "agent_id": agent_id,
            "instance_id": f"{agent_id}.1",
            "env": ENV,
            "capabilities": [{"name": name} for name in capabilities],
        }
        self._agents.append(agent_id)
        await self.backend.send_control(json.dumps(declared | fields).encode())

        async def told() -> bool:
            entries = await self.place.entries(KEYS.mail(0, BOX))
            notices = [json.loads(entry[b"n"]) for _, entry in entries if b"n" in entry]
            return any(n["notice"] == "registered" and n.get("agent_id") == agent_id for n in notices)

        await until(told, f"the registration of {agent_id}")

    async def work(self, agent_id: str, lane: str = "normal", within_s: float = 5.0) -> tuple[str, dict[bytes, bytes]]:
        """Wait for the first undelivered entry of an inbox and read it as a plain group reader: (hand, fields)."""
        key = KEYS.inbox(0, agent_id, lane)
        found = await until(
            lambda: self.place.read_plain(key, "agent", f"{agent_id}.1"), f"work for {agent_id}", within_s
        )
        entries = dict(await self.place.entries(key))
        return found[0], entries[found[0]]

    async def settle(self, msg_id: str, hand: str, receipt: object, *, leg: int = 0) -> None:
        """Append a receipt for the router to settle."""
        data = receipt if isinstance(receipt, bytes) else json.dumps(receipt).encode()
        await self.place.append(
            KEYS.receipts(0), {"m": msg_id.encode(), "l": str(leg).encode(), "h": hand.encode(), "r": data}
        )

    # ---------------------------------------------------------------- what is left
    async def events(self, partition: int = 0) -> list[dict[str, Any]]:
        """All hop records so far."""
        await self.hops.flush()
        entries = await self.place.entries(KEYS.events(partition))
        return [record for _, fields in entries for record in json.loads(fields[b"b"])]

    async def points(self, msg_id: str, *wanted: str) -> list[dict[str, Any]]:
        """The records of a message once they are these points, in order: they are written a moment after the step."""
        records: list[dict[str, Any]] = []

        async def there() -> bool:
            records[:] = [record for record in await self.events() if record["msg_id"] == msg_id]
            return sorted(record["point"] for record in records) == sorted(wanted)

        await until(there, f"the points {wanted}")
        records.sort(key=lambda record: int(record["at_us"]))
        assert [record["point"] for record in records] == list(wanted)
        return records

    async def quiet(self) -> None:
        """Wait until the doors are there, hold no entry, and nothing is pending."""

        async def empty() -> bool:
            for partition in self.partitions:
                for key in KEYS.work(partition):
                    if await self.place.type_of(key) != "stream":
                        return False
                    if await self.place.entries(key) or await self.place.pending(key, "routers"):
                        return False
            return True

        await until(empty, "empty doors")


async def still_serves(spine: Spine) -> None:
    """Nobody was brought down by what came before."""
    msg_id = await spine.send(envelope())
    hand, fields = await spine.work("refund-1")
    assert fields[b"m"].decode() == msg_id
    await spine.settle(msg_id, hand, {"status": "success", "output": 1})
    assert (await spine.receipt(msg_id))["status"] == "success"
    await spine.quiet()
