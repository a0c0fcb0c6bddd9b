"""Agents come and go, 50 a second, while broadcasts and requests go on: `python -m tests.chaos.churn [--seconds 60] [--rate 50]`.

Two routers, agents with the SDK that stay, and guests without it: each registers by `control`, takes and answers what comes, and leaves.
Judged is: a broadcast reaches everybody who was live throughout, once; every leg has one receipt; every request succeeds; and when all
guests have left, Redis and the routers' indexes hold what they held before.
"""

import argparse
import asyncio
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import msgspec
import redis

from reach import Agent, Reach
from reach.backend import Backend, open_backend
from reach.backend.keys import KeySpace
from reach.backend.private_server import PrivateServer
from reach.backend.steps import Answer, Settlement
from reach.envelope.message import Envelope
from reach.registry.watcher import Watcher
from reach.routing.index import CapabilityIndex
from reach.testing import wait_until
from tests import hygiene
from tests.integration.sdk.world import router

KEYS = KeySpace("dev")
STEADY = 5
GROUP, CAPABILITY = "group:crowd", "capability:work"
MAILBOX = "churn.0123456789abcdef0123456789"
#: A guest looks so often whether something has come, and stays until it was there for so many whole broadcasts.
LOOK_S, STAYS = 0.05, 2
#: So many guests are there at once at most; more wait at the door.
MOST = 100
PATIENT_S = 60.0

_RECORD = (
    '{"status":"success","code":"ok","output":%s,"error_message":null,"schema":null,"processing_host":null,'
    '"confidence":null,"partial":false,"cost":null,"via":null,"retry_after_ms":null}'
)


class Guest:
    """One agent without the SDK. `heard`: how often it was given each broadcast."""

    def __init__(self, name: str) -> None:
        self.name, self.instance = name, f"{name}.1"
        self.heard: Counter[int] = Counter()
        #: From this broadcast on it is known to both routers; broadcasts up to `until` were over before it began to leave.
        self.since = self.until = -1

    async def work(self, backend: Backend) -> int:
        """Take and answer what has come."""
        taken = (await backend.take(0, self.name, self.instance, 8)).taken
        for one in taken:
            body = msgspec.json.decode(msgspec.json.decode(one.envelope, type=Envelope).payload.body)
            if "broadcast" in body:
                self.heard[body["broadcast"]] += 1
        settled = [
            Settlement(one.msg_id, one.leg, one.hand, Answer("success", "ok", _RECORD % "true"), self.instance)
            for one in taken
        ]
        if settled:
            await backend.settle(0, self.name, settled)
        return len(taken)


class Churn:
    """The town and what happens in it. `faults` is the verdict."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.faults: list[str] = []
        self.guests: list[Guest] = []
        self.sent = self.over = 0  # broadcasts
        self.requests = 0
        self.came = self.left = 0
        self._heard: dict[str, Counter[int]] = {f"steady-{at}": Counter() for at in range(STEADY)}
        self._answers: dict[tuple[str, str], asyncio.Future[Mapping[str, Any]]] = {}
        self._door = asyncio.Semaphore(MOST)
        self._over = asyncio.Condition()

    @asynccontextmanager
    async def open(self) -> AsyncIterator["Churn"]:
        """Routers, those who stay, a client, and the reader of the guests' mailbox."""
        async with AsyncExitStack() as stack:
            self.indexes: list[CapabilityIndex] = []
            for worker in ("router-1", "router-2"):
                supervisor = await stack.enter_async_context(router(self.url, worker))
                self.indexes += [one.index for one in supervisor._services if isinstance(one, Watcher)]
            for name in self._heard:
                await stack.enter_async_context(self._steady(name).running(self.url))
            self._reach: Reach = await stack.enter_async_context(Reach.connect(self.url, agent_id="caller"))
            self._backend = open_backend(self.url)
            await self._backend.open()
            stack.push_async_callback(self._backend.close)
            self._mail = asyncio.create_task(self._read_mail())
            try:
                await wait_until(lambda: self._known() == STEADY, PATIENT_S)
                yield self
            finally:
                self._mail.cancel()
                await asyncio.wait([self._mail])

    def _steady(self, name: str) -> Agent:
        agent = Agent(name, concurrency=64, groups=("crowd",))

        @agent.capability("work")
        async def work(body: dict[str, int]) -> bool:
            if "broadcast" in body:
                self._heard[name][body["broadcast"]] += 1
            return True

        return agent

    def _known(self) -> int:
        return min(len(index.agents) for index in self.indexes)

    # ---------------------------------------------------------------- who comes and goes
    async def guests_come(self, count: int, rate: float = 0.0) -> None:
        """So many come, `rate` a second (0: as fast as they find room), and all of them leave again."""
        async with asyncio.TaskGroup() as group:
            began = time.monotonic()
            for at in range(count):
                await self._door.acquire()
                if rate:
                    await asyncio.sleep(max(began + at / rate - time.monotonic(), 0))
                guest = Guest(f"guest-{at:05}")
                self.guests.append(guest)
                group.create_task(self._live(guest))

    async def _live(self, guest: Guest) -> None:
        fields = {"agent_id": guest.name, "instance_id": guest.instance}
        offers = {"groups": ["crowd"], "capabilities": [{"name": "work"}]}
        try:
            await self._ask("register", {**fields, **offers})
            self.came += 1
            while not all(guest.name in index.agents for index in self.indexes):
                await guest.work(self._backend)
                await asyncio.sleep(LOOK_S)
            guest.since = self.sent
            while self.over < guest.since + STAYS:
                await guest.work(self._backend)
                await asyncio.sleep(LOOK_S)
            guest.until = self.over
            await self._ask("leave", fields)
            self.left += 1
        finally:
            self._door.release()

    async def _ask(self, op: str, fields: Mapping[str, Any]) -> None:
        key = (op, fields["agent_id"])
        answer = self._answers[key] = asyncio.get_running_loop().create_future()
        await self._backend.send_control(msgspec.json.encode({"op": op, "reply_to": MAILBOX, **fields}))
        notice = await asyncio.wait_for(answer, PATIENT_S)
        if notice["notice"] == "refused":
            self.faults.append(f"{key} was refused: {notice}")

    async def _read_mail(self) -> None:
        cursor = "0"
        while True:
            await self._backend.keep_mailbox(MAILBOX, [0])
            for entry in await self._backend.read_mail(MAILBOX, {0: cursor}, 1_000):
                cursor = entry.id
                if entry.kind == "notice":
                    notice = msgspec.json.decode(entry.data)
                    waiting = self._answers.pop((notice.get("op"), notice.get("agent_id")), None)
                    if waiting is not None:
                        waiting.set_result(notice)

    # ---------------------------------------------------------------- the load
    async def broadcasts(self, stop: asyncio.Event) -> None:
        """One after the other, until it is over."""
        while not stop.is_set():
            await self._broadcast()

    async def _broadcast(self) -> None:
        """One, and what is to be said of its receipts at once."""
        number = self.sent
        self.sent += 1
        receipts = await self._reach.gather(GROUP, {"broadcast": number}, timeout=30)
        self.over = number + 1
        twice = [name for name, count in Counter(one.target_agent for one in receipts).items() if count > 1]
        if twice:
            self.faults.append(f"broadcast {number}: two legs for {twice}")
        answered = {one.target_agent for one in receipts if one.ok}
        self.faults += [f"broadcast {number}: no success of {name}" for name in self._heard if name not in answered]
        # Who has left meanwhile may not have had it; nobody else may fail.
        codes = {one.code for one in receipts if not one.ok and one.target_agent in self._heard}
        codes |= {one.code for one in receipts if not one.ok} - {
            "agent.lost",
            "timeout.network",
            "route.no_candidate",
        }
        self.faults += [f"broadcast {number}: {code}" for code in sorted(codes)]

    async def ask(self, stop: asyncio.Event) -> None:
        """Requests to whoever does the work, one after the other, until it is over."""
        while not stop.is_set():
            receipt = await self._reach.request(CAPABILITY, {"request": self.requests}, timeout=30)
            self.requests += 1
            if not receipt.ok:
                self.faults.append(f"request {self.requests}: {receipt.code} {receipt.error_message}")

    async def run(self, count: int, rate: float = 0.0) -> None:
        """So many guests under load, then the verdict."""
        await self._broadcast()
        await self.settled()
        before = self.held()
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            load = [group.create_task(self.broadcasts(stop)), group.create_task(self.ask(stop))]
            await self.guests_come(count, rate)
            stop.set()
            await asyncio.wait(load)
        await self.settled()
        self.judge()
        with redis.Redis.from_url(self.url) as client:
            if client.zcard(KEYS.recorders()) > STEADY + 1:  # and the one that asks
                self.faults.append(f"words of recorders: {client.zrange(KEYS.recorders(), 0, -1)}")
        after = self.held()
        self.faults += [
            f"{name}: {before.get(name)} before, {now} after" for name, now in after.items() if now != before.get(name)
        ]

    # ---------------------------------------------------------------- the verdict
    async def settled(self) -> None:
        """Wait until nobody but those who stay is known, and nothing is under way."""
        with redis.Redis.from_url(self.url) as client:
            await wait_until(
                lambda: (
                    self._known() == STEADY
                    and max(len(index.agents) for index in self.indexes) == STEADY
                    and not client.exists(KEYS.due(0))
                    and not client.xlen(KEYS.control())
                ),
                PATIENT_S,
            )

    def judge(self) -> None:
        """Whoever was live throughout a broadcast has had it once, everybody else at most once."""
        for name, heard in self._heard.items():
            wrong = {number: heard[number] for number in range(self.over) if heard[number] != 1}
            if wrong:
                self.faults.append(f"{name} had {wrong}")
        for guest in self.guests:
            missed = [number for number in range(guest.since, guest.until) if guest.heard[number] != 1]
            twice = [number for number, count in guest.heard.items() if count > 1]
            if missed or twice:
                self.faults.append(f"{guest.name} had not {missed}, twice {twice}, live {guest.since} to {guest.until}")

    def held(self) -> dict[str, int]:
        """What Redis and the indexes hold that guests could leave behind. Records of messages have their window, tombstones a day."""
        found: dict[str, int] = {}
        passing = (KEYS.message(0, ""), KEYS.partition_prefix(0) + "mail:", KEYS.events(0), "reach:{dev}:conv:")
        later = (KEYS.recorders(),)  # each process that stays says its first word when it has recorded something
        with redis.Redis.from_url(self.url) as client:
            for key in client.scan_iter("reach:*", count=1_000):
                name, kind = key.decode(), client.type(key).decode()
                if name.startswith(passing + later) or kind in {
                    "string",
                    "none",
                }:  # records and locks have their own end
                    continue
                size = {"hash": client.hlen, "zset": client.zcard}.get(kind)
                found[name] = 1 if size is None or name == KEYS.agents() else int(size(key))
                if kind == "stream":
                    found |= {f"{name} {one['name'].decode()}": one["consumers"] for one in client.xinfo_groups(key)}
            stored = client.hvals(KEYS.agents())
            found["registered"] = sum(not value.startswith(b'{"gone_at":') for value in stored)
        for at, index in enumerate(self.indexes):
            found |= {f"index {at} {name}": size for name, size in sizes(index).items()}
        return found


def sizes(index: CapabilityIndex) -> dict[str, int]:
    """How much an index holds that agents bring."""
    return {
        "agents": len(index.agents),
        "capabilities": len(index._offers),
        "names": len(index._offers.names()),
        "groups": len(index._by_group),
        "circuits": len(index.circuits),
        "types": len(index.types.all()),
        "instances": sum(len(agent.instances) for agent in index.agents.values()),
        "places": index._pools._places,
    }


async def churned(url: str, count: int, rate: float = 0.0) -> Churn:
    """One whole run."""
    async with Churn(url).open() as churn:
        began = time.monotonic()
        await churn.run(count, rate)
        took_s = time.monotonic() - began
    churn.faults += hygiene.walk(url)
    print(
        f"{churn.came} came and {churn.left} left in {took_s:.0f} s, {churn.over} broadcasts and {churn.requests} requests meanwhile; "
        f"{len(churn.faults)} faults"
    )
    return churn


def main(seconds: float, rate: float) -> int:
    with PrivateServer.start() as server:
        churn = asyncio.run(churned(server.url, int(seconds * rate), rate))
    print("\n".join(churn.faults[:50]))
    return 1 if churn.faults else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rate", type=float, default=50)
    told = parser.parse_args()
    sys.exit(main(told.seconds, told.rate))
