"""The processes of `tests.benchmarks.scale`: `python -m tests.benchmarks.scale_parts ROLE URL`. Each says "ready" when it is."""

import asyncio
import gc
import sys
import time
from collections.abc import Sequence
from typing import Any

import redis
import uvloop

from reach.backend import open_backend
from reach.registry.registrar import Registrar
from reach.registry.watcher import Watcher
from reach.routing.index import CapabilityIndex
from reach.routing.pattern import parse
from reach.routing.strategies import WEIGHINGS
from tests.benchmarks import scale_fleet

PACE_S = 0.02


def beat(url: str, a_second: int) -> None:
    """All in turn, so many a second, as evenly as may be."""
    beater = scale_fleet.Beater(redis.Redis.from_url(url))
    agents, done, began = list(range(scale_fleet.AGENTS)), 0, time.monotonic()
    print("ready", flush=True)
    while True:
        time.sleep(PACE_S)
        due = int((time.monotonic() - began) * a_second)
        beater.all([agents[number % len(agents)] for number in range(done, due)], 1 + done // len(agents))
        done = due


async def watch(url: str, index: CapabilityIndex) -> None:
    """One router's index."""
    backend = open_backend(url)
    await backend.open()
    watcher = Watcher(backend, index)
    watcher.when_loaded = gc.freeze  # as a router's process does
    await watcher.run_once()
    for pattern in (
        "capability:shared.10000",
        "capability:shared.100",
        "group:group-1",
    ):  # what it draws from follows the beats too
        index.pool(parse(pattern), "score", WEIGHINGS["score"])
    print("ready", flush=True)
    while True:
        await watcher.run_once()


async def register(url: str) -> None:
    """A registrar, and nothing else."""
    backend = open_backend(url)
    await backend.open()
    registrar = Registrar(backend, "bench-registrar")
    print("ready", flush=True)
    while True:
        await registrar.run_once()


async def start(url: str) -> None:
    """Until the index is filled, and no longer: how long that took, and its CPU."""
    began, cpu = time.perf_counter(), time.process_time()
    backend = open_backend(url)
    await backend.open()
    index = CapabilityIndex()
    await Watcher(backend, index).run_once()
    assert len(index.agents) >= scale_fleet.AGENTS
    print("ready", time.perf_counter() - began, time.process_time() - cpu, flush=True)
    await backend.close()


class Telling(CapabilityIndex):
    """Says who has come since the start, and can be given work: it has beaten. Moments are the same in all processes."""

    def __init__(self) -> None:
        super().__init__()
        self._come: set[str] = set()

    def load(self, *args: Any, **named: Any) -> None:
        super().load(*args, **named)
        self._come.update(self.agents)

    def apply(self, *args: Any, **named: Any) -> None:
        super().apply(*args, **named)
        self._look(str(args[1]).partition("/")[0])

    def beat(self, agent_id: str, instance_id: str, at_ms: int, data: bytes) -> bool:
        taken = super().beat(agent_id, instance_id, at_ms, data)
        self._look(agent_id)
        return taken

    def _look(self, agent_id: str) -> None:
        agent = self.agents.get(agent_id)
        if agent is not None and agent.instances and agent_id not in self._come:
            self._come.add(agent_id)
            print(agent_id, time.monotonic(), flush=True)


async def register_all(url: str, newcomers: Sequence[int]) -> dict[str, float]:
    """50 come in a second: the moment of the XADD of each."""
    sender = open_backend(url)
    await sender.open()
    sent: dict[str, float] = {}
    for at in newcomers:
        sent[scale_fleet.name(at)] = time.monotonic()
        await sender.send_control(scale_fleet.control(at, "bench"))
        await asyncio.sleep(PACE_S)
    await sender.close()
    return sent


if __name__ == "__main__":
    role, address = sys.argv[1], sys.argv[2]
    if role == "beat":
        beat(address, int(sys.argv[3]))
    elif role == "watch":
        uvloop.run(watch(address, CapabilityIndex()))
    elif role == "see":
        uvloop.run(watch(address, Telling()))
    elif role == "register":
        uvloop.run(register(address))
    else:
        uvloop.run(start(address))
