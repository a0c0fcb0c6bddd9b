"""Whoever watches is down, slow or refuses, under load: `python -m tests.chaos.observers_down [--seconds 60] [--within 5]`.

A router and an agent serve one request after the other while an archiver (a process of its own) moves hop records into a stand-in for
Elasticsearch and exports spans to a stand-in for a collector. Both are up, then cut every connection, then take two seconds for each
answer, then say 429; between them they are up again. Judged is: every request succeeds, each batch of records is kept once or counted in a
gap, and no record is kept twice.

Each fault lasts `--seconds` in all, in windows that take turns with windows in which all is well and the archiver has caught up, so
that what others do on this machine meets both. Printed is the throughput of each bad window as a part of that of the two good ones
around it: median and range. `--within 5` makes a median below 95 % a fault; only a machine that does nothing else can say that.
"""

import argparse
import asyncio
import json
import signal
import statistics
import sys
import threading
import time
from collections.abc import Callable

import redis

from reach import Agent, Reach
from reach.backend import open_backend
from reach.backend.keys import KeySpace
from reach.backend.private_server import PrivateServer
from reach.events.archiver import GROUP
from reach.testing import wait_until
from tests.benchmarks.measure import spread
from tests.e2e.processes import WorkerProcess
from tests.integration.sdk.world import router
from tests.unit.events.elastic_server import ElasticServer

EVENTS = KeySpace("dev").events(0)
MODES = ("cut", "slow", "refusing")
SLOW_S = 2.0
SETTLE_S = 90.0


class Observers:
    """The stand-ins, and how they are. `faults` is the verdict."""

    def __init__(self, server: ElasticServer) -> None:
        self.server = server
        self.mode = "up"
        self.disturbed = 0
        self.faults: list[str] = []
        self.asked = 0
        self.gaps = 0
        self.rates: list[tuple[str, float]] = []  # of the windows in their order: what they were, requests a second
        self._changed = threading.Event()
        server.fault = self._fault

    def become(self, mode: str) -> None:
        """From now on."""
        self.mode = mode
        self._changed.set()
        self._changed = threading.Event()

    def _fault(self, method: str, path: str, body: bytes) -> tuple[int, dict[str, str]] | str | None:
        mode, changed = self.mode, self._changed
        if mode != "up" and path != "/":
            self.disturbed += 1
        if mode == "cut":
            return "cut"
        if mode == "refusing":
            return 429, {}
        if mode == "slow":
            changed.wait(SLOW_S)
        return (200, {}) if path == "/v1/traces" else None

    def judge(self, url: str) -> None:
        """Every batch that was ever written is kept, or counted in a gap."""
        with redis.Redis.from_url(url) as client:
            written = client.xinfo_stream(EVENTS)["entries-added"]
        records = {key: document for key, document in self.server.documents.items() if "/gap-" not in key}
        told = [json.loads(one["body"]) for key, one in self.server.documents.items() if "/gap-" in key]
        self.gaps = sum(one["counts"]["batches"] for one in told)
        batches = {key.rpartition("/")[0] for key in records}
        if len(batches) + self.gaps != written:
            self.faults.append(f"{written} batches: {len(batches)} kept, {self.gaps} in gaps")
        bodies = [document["body"] for document in records.values()]
        if len(set(bodies)) != len(bodies):
            self.faults.append(f"{len(bodies) - len(set(bodies))} records are kept twice")


def following(url: str) -> bool:
    """Whether an archiver reads."""
    with redis.Redis.from_url(url) as client:
        return bool(client.exists(EVENTS)) and any(one["name"] == GROUP.encode() for one in client.xinfo_groups(EVENTS))


class Unread:
    """What retention takes before the archivers have read it: the oldest entry that they have not had is looked for until it is gone."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._id = b""

    def is_lost(self) -> bool:
        with redis.Redis.from_url(self._url) as client:
            last = next(
                one["last-delivered-id"] for one in client.xinfo_groups(EVENTS) if one["name"] == GROUP.encode()
            )
            if self._id and _moment(last) < _moment(self._id):
                return not client.xrange(EVENTS, self._id, self._id)
            self._id = next((entry for entry, _ in client.xrange(EVENTS, b"(" + last, count=1)), b"")
            return False


def _moment(entry: bytes) -> tuple[int, ...]:
    return tuple(map(int, entry.split(b"-")))


def settled(url: str) -> bool:
    """Whether the archivers have read and finished all that there is."""
    with redis.Redis.from_url(url) as client:
        groups = [one for one in client.xinfo_groups(EVENTS) if one["name"] == GROUP.encode()]
        last = client.xinfo_stream(EVENTS)["last-generated-id"]
    return bool(groups) and all(not one["pending"] and one["last-delivered-id"] == last for one in groups)


def order(rounds: int) -> list[str]:
    """The windows: a good one, a bad one, a good one, ...; the faults in turn, so that none has the quiet time alone."""
    return ["up", *(each for _ in range(rounds) for fault in MODES for each in (fault, "up"))]


def parts_of(rates: list[tuple[str, float]]) -> dict[str, list[float]]:
    """The throughput of each bad window as a part of that of the two good ones around it."""
    found: dict[str, list[float]] = {}
    for at in range(1, len(rates), 2):
        around = (rates[at - 1][1] + rates[at + 1][1]) / 2
        found.setdefault(rates[at][0], []).append(rates[at][1] / around)
    return found


async def watched(
    url: str,
    part_over: Callable[[int, float, "Observers"], bool],
    max_events: int,
    *,
    rounds: int = 1,
    settles: bool = False,
) -> Observers:
    """One whole run. `part_over` is told how many requests a part has had, and for how many seconds it has run.

    `settles`: a good window begins when the archiver has caught up.
    """
    meta = open_backend(url)
    await meta.open()
    await meta.set_meta("meta", "max_events", str(max_events).encode())
    await meta.close()
    agent = Agent("worker", concurrency=16)

    @agent.capability("work")
    async def work(body: int) -> int:
        return body

    with ElasticServer().running() as server:
        observers = Observers(server)
        store, spans = f"es+{server.url}/hops", {"OTEL_EXPORTER_OTLP_ENDPOINT": server.url}
        with WorkerProcess(url, "--roles", "archiver", "--event-store", store, **spans) as worker:
            async with router(url), agent.running(url), Reach.connect(url, agent_id="caller") as reach:
                await wait_until(
                    lambda: following(url), SETTLE_S
                )  # what goes before a group is made is missed by nobody
                for mode in order(rounds):
                    observers.become(mode)
                    if settles and mode == "up":
                        await wait_until(lambda: settled(url), SETTLE_S)
                    observers.rates.append((mode, await _part(reach, observers, part_over)))
            await wait_until(lambda: settled(url), SETTLE_S)
            worker.signal(signal.SIGTERM)
            status, _, log = worker.wait()
            if status or "Traceback" in log:
                observers.faults.append(f"the archiver ended with {status}: {log[-2_000:]}")
        observers.judge(url)
    for mode, parts in parts_of(observers.rates).items():
        rates = [rate for name, rate in observers.rates if name == mode]
        print(f"{mode:9} {spread(rates)} requests/s, {spread(parts, 3)} of the windows around them")
    print(f"{'up':9} {spread([rate for name, rate in observers.rates if name == 'up'])} requests/s; median (min-max)")
    print(
        f"{observers.asked} requests, {observers.disturbed} disturbed calls, {len(server.documents)} records kept, "
        f"{observers.gaps} batches in gaps; {len(observers.faults)} faults"
    )
    return observers


async def _part(reach: Reach, observers: Observers, over: Callable[[int, float, Observers], bool]) -> float:
    """Requests a second of one part, four at a time."""
    began, done = time.monotonic(), 0
    observers.disturbed, before = 0, observers.disturbed

    async def ask() -> None:
        nonlocal done
        while not over(done, time.monotonic() - began, observers):
            receipt = await reach.request("capability:work", done, timeout=30)
            done += 1
            if not receipt.ok:
                observers.faults.append(f"{observers.mode}: {receipt.code}")

    await asyncio.gather(*(ask() for _ in range(4)))
    observers.asked += done
    observers.disturbed += before
    return done / (time.monotonic() - began)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="of each fault, over all its windows")
    parser.add_argument("--windows", type=int, default=6, help="of each fault")
    parser.add_argument("--within", type=float, metavar="PERCENT", help="a median that is more below is a fault")
    parser.add_argument("--max-events", type=int, default=2_000)
    told = parser.parse_args()
    with PrivateServer.start() as server:
        over = lambda _, took_s, __: took_s >= told.seconds / told.windows  # noqa: E731
        observers = asyncio.run(watched(server.url, over, told.max_events, rounds=told.windows, settles=True))
    for mode, parts in parts_of(observers.rates).items():
        if told.within is not None and statistics.median(parts) < 1 - told.within / 100:
            observers.faults.append(f"{mode}: {statistics.median(parts):.3f} of the throughput")
    for fault in observers.faults[:20]:
        print(fault)
    return bool(observers.faults)


if __name__ == "__main__":
    sys.exit(main())
