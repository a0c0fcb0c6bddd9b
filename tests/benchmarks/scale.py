"""10,000 agents, 50,000 capabilities, 2,000 beats a second: `python -m tests.benchmarks.scale [--rounds N] [--only PART]`.

Printed are medians of the rounds with their range. CPU is the process's own (other load on the machine does not count), moments are real
time. The server, the routers' watchers, the registrar and whoever beats are processes of their own.
"""

import argparse
import asyncio
import os
import resource
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from random import Random
from tempfile import TemporaryDirectory

import redis

from reach.backend.private_server import PrivateServer
from reach.routing.decide import Chooser, decide
from reach.routing.index import CapabilityIndex
from reach.routing.message import Message
from reach.routing.pattern import parse
from reach.routing.steps import Deliver
from reach.routing.strategies import Memory
from tests.benchmarks import measure, scale_fleet
from tests.benchmarks.scale_parts import register_all

DECISIONS = 2_000
BEATS_A_S, FRESH_S = 2_000, 10
NEWCOMERS = 200
#: Until what has happened while the routers read the registry is caught up with.
SETTLE_S = 3.0
#: A decision takes this part of the agents' slots: half of them, at a second each.
STEP_MS = 240
PATTERNS = ("agent_id:agent-00000", *(f"capability:shared.{size}" for size in scale_fleet.SHARED), "group:group-1")


# ---------------------------------------------------------------- the decision, in this process
def memory_mb() -> float:
    """What an index of them all takes."""
    tracemalloc.start()
    index = CapabilityIndex()
    scale_fleet.load(index)
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return taken / 1e6


def decided(index: CapabilityIndex, text: str) -> tuple[list[float], int]:
    """CPU of each decision in us, and how many answer the pattern. Time goes on, so that what was sent is worked off."""
    by = Chooser(index=index, rng=Random(1), memory=Memory())
    pattern = parse(text)
    answer = len(index.match(pattern))
    found: list[float] = []
    for number in range(DECISIONS + 100):
        now_ms = scale_fleet.NOW + number * STEP_MS // answer % 4_000
        if now_ms == scale_fleet.NOW and number * STEP_MS % answer < STEP_MS:
            by = Chooser(
                index=index, rng=by.rng, memory=Memory()
            )  # the next four seconds, as after a beat of everybody
        message = Message(
            pattern=pattern,
            start_at_ms=now_ms,
            first_at_ms=now_ms + 30_000,
            total_at_ms=now_ms + 30_000,
            network_ms=3_000,
        )
        before = time.thread_time_ns()
        choice = decide(message, None, by, now_ms)
        took = (time.thread_time_ns() - before) / 1_000
        assert isinstance(choice.steps[0], Deliver)
        if number >= 100:
            found.append(took)
    return found, answer


def decisions(rounds: int) -> None:
    """Whole decisions, by how many agents there are and how many of them answer."""
    print(f"an index of {scale_fleet.AGENTS} agents with {scale_fleet.EACH} capabilities each: {memory_mb():.0f} MB")
    print(f"decide (pattern, candidates, filters, score), us of CPU, {DECISIONS} each:")
    for agents in (100, 1_000, scale_fleet.AGENTS):
        index = CapabilityIndex()
        scale_fleet.load(index, agents)
        for text in PATTERNS:
            runs = [decided(index, text) for _ in range(rounds)]
            p50 = [measure.percentile(took, 50) for took, _ in runs]
            p99 = [measure.percentile(took, 99) for took, _ in runs]
            print(
                f"  {agents:>6} agents  {text:<24} {runs[0][1]:>6} answer  p50 {measure.spread(p50, 1)}  p99 {measure.spread(p99, 1)}",
                flush=True,
            )


# ---------------------------------------------------------------- with a real server
@contextmanager
def part(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A role of `scale_parts` in a process of its own, as soon as it has said that it is ready."""
    command = [sys.executable, "-m", "tests.benchmarks.scale_parts", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("ready")
        yield process
    finally:
        process.terminate()
        process.wait()


@contextmanager
def fleet() -> Iterator[PrivateServer]:
    """A server that knows them all."""
    with PrivateServer.start() as server:
        scale_fleet.store(redis.Redis.from_url(server.url))
        yield server


def fresh(rounds: int) -> None:
    """What one router's index costs to keep true, and what the beats cost the server."""
    own, served, beats = [], [], []
    with fleet() as server, part("watch", server.url) as watcher, part("beat", server.url, str(BEATS_A_S)):
        client = redis.Redis.from_url(server.url)
        time.sleep(2)
        for _ in range(rounds):
            cpu, of_server, count = measure.process_cpu_s(watcher.pid), measure.server_cpu_s(client), _beaten(client)
            began = time.perf_counter()
            time.sleep(FRESH_S)
            took_s = time.perf_counter() - began
            own.append(100 * (measure.process_cpu_s(watcher.pid) - cpu) / took_s)
            served.append(100 * (measure.server_cpu_s(client) - of_server) / took_s)
            beats.append((_beaten(client) - count) / took_s)
    print(
        f"{measure.spread(beats)} beats a second: one router spends {measure.spread(own, 1)} % of a core on staying fresh, "
        f"the server {measure.spread(served, 1)} % on them and on it",
        flush=True,
    )


def _beaten(client: redis.Redis) -> int:
    calls = client.info("commandstats")
    assert isinstance(calls, dict)
    return int(calls["cmdstat_evalsha"]["calls"])


def seen(rounds: int) -> None:
    """How long after its XADD to control a registration is in the indexes of two routers, while all others beat."""
    p50, p99 = [], []
    with ExitStack() as stack:
        url = stack.enter_context(fleet()).url
        routers = [stack.enter_context(part("see", url)) for _ in range(2)]
        for role in (("register", url), ("beat", url, str(BEATS_A_S))):
            stack.enter_context(part(*role))
        time.sleep(SETTLE_S)
        for round_ in range(rounds):
            first = scale_fleet.AGENTS + round_ * NEWCOMERS
            sent = asyncio.run(register_all(url, range(first, first + NEWCOMERS)))
            come = [_come(router, len(sent)) for router in routers]
            took = [1_000 * (max(seen[name] for seen in come) - at) for name, at in sent.items()]
            p50.append(measure.percentile(took, 50))
            p99.append(measure.percentile(took, 99))
    print(
        f"a registration is in two routers' indexes after p50 {measure.spread(p50, 1)} ms, p99 {measure.spread(p99, 1)} ms "
        f"({NEWCOMERS} newcomers, 50 a second)",
        flush=True,
    )


def _come(router: subprocess.Popen[str], count: int) -> dict[str, float]:
    assert router.stdout is not None
    lines = (router.stdout.readline().split() for _ in range(count))
    return {name: float(moment) for name, moment in lines}


def start(rounds: int) -> None:
    """From the start of the process to its readiness, and how much of that is the reading of the registry."""
    whole, loading, cpu, loading_cpu = [], [], [], []
    with fleet() as server, TemporaryDirectory() as compiled:
        # As one that is installed: its modules are compiled.
        env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        env["PYTHONPYCACHEPREFIX"] = compiled
        command = [sys.executable, "-m", "tests.benchmarks.scale_parts", "start", server.url]
        for round_ in range(rounds + 1):
            began, burnt = time.perf_counter(), _of_children_s()
            told = subprocess.run(command, capture_output=True, text=True, check=True, env=env).stdout
            if round_:
                whole.append(time.perf_counter() - began)
                cpu.append(_of_children_s() - burnt)
                wall_s, cpu_s = map(float, told.split()[-2:])
                loading.append(wall_s)
                loading_cpu.append(cpu_s)
    print(
        f"a router is ready {measure.spread(whole, 2)} s after the start of its process ({measure.spread(cpu, 2)} s of CPU), "
        f"{measure.spread(loading, 2)} s of them for reading the registry ({measure.spread(loading_cpu, 2)} s of CPU)",
        flush=True,
    )


def _of_children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


PARTS: dict[str, Callable[[int], None]] = {"decide": decisions, "fresh": fresh, "seen": seen, "start": start}


def main(rounds: int = 3, only: str = "") -> None:
    for name, run in PARTS.items():
        if only in {"", name}:
            run(rounds)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", choices=list(PARTS))
    told = parser.parse_args()
    main(told.rounds, told.only)
