"""Steady mixed load in real processes with a little churn, and whether anything grows: memory, keys, streams, consumers, tasks, sockets.

`python -m tests.chaos.soak --minutes 10` prints every series by thirds and exits 1 when one of them has grown, or when something is
left at the end. It reads /proc, so it needs Linux.

What is measured, every 2 s: RSS and descriptors of each process that stays; asyncio tasks of the client and of the agents; used_memory
and keys of the server; entries, pending and consumers of all streams and groups (without mailboxes, which their owners trim).

The verdict: the first WARM_S are left out (messages ask for total 5 s, so records stay 60 s after their end: the window is full by then;
events and dead letters are bounded by the settings of the env, so that their bound is reached, too). Of what is left, the median of the
last third may be at most 5 % and a constant (LIMITS) over the median of the middle third.
"""

import argparse
import asyncio
import contextlib
import signal
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import redis
import redis.asyncio

from reach.backend import open_backend
from reach.backend.private_server import PrivateServer
from tests import hygiene, servers
from tests.chaos.remains import under_way
from tests.chaos.soak_stage import ENV, KEYS, Stage

WARM_S = 90.0
EVERY_S = 2.0
GROWTH = 0.05
#: what a series may grow by beside 5 %: noise of an allocator, and of the moment at which one looks
LIMITS = {"rss_kb": 1024.0, "used_memory": 262_144.0, "keys": 40.0, "entries": 40.0}
LIMIT = 4.0  # of everything that is counted one by one
#: what takes longer than a soak to reach its bound, and must only keep it (MAXLEN ~ 10000 is that and a node of the stream)
BOUNDED = {"changes": 10_100.0}
BOUNDS = {"max_events": b"200", "max_dead": b"20"}


@dataclass
class Soaked:
    """The series of a run, and what was wrong in the end."""

    seconds: float
    rate: float
    answers: dict[str, int] = field(default_factory=dict)
    series: dict[str, list[tuple[float, float]]] = field(default_factory=lambda: defaultdict(list))
    churned: int = 0
    left: list[str] = field(default_factory=list)
    server: str = ""

    def add(self, name: str, at_s: float, value: float) -> None:
        """One measurement."""
        self.series[name].append((at_s, value))

    def thirds(self, name: str, warm_s: float) -> list[float]:
        """The medians of the three thirds that come after the warm-up."""
        values = [value for at_s, value in self.series[name] if at_s >= warm_s]
        size = len(values) // 3
        return [statistics.median(values[n * size : (n + 1) * size or None]) for n in range(3)] if size else []

    def grown(self, warm_s: float = WARM_S) -> list[str]:
        """The series whose last third lies over the middle one."""
        found = []
        for name in self.series.keys() - BOUNDED.keys():
            thirds = self.thirds(name, warm_s)
            if not thirds:
                found.append(f"{name}: too few measurements")
                continue
            limit = thirds[1] * (1 + GROWTH) + LIMITS.get(name.split(" ")[0], LIMIT)
            if thirds[2] > limit:
                found.append(f"{name}: {thirds[1]:.0f}, then {thirds[2]:.0f}, at most {limit:.0f}")
        for name, most in BOUNDED.items():
            found += [f"{name}: {value:.0f}, at most {most:.0f}" for _, value in self.series[name] if value > most]
        return sorted(found)

    def __str__(self) -> str:
        rows = [
            f"{name:32} {' '.join(f'{value:12.0f}' for value in self.thirds(name, WARM_S))}   {self.series[name][0][1]:.0f} at first"
            for name in sorted(self.series)
        ]
        return "\n".join(
            [
                f"{self.seconds:.0f} s at {self.rate:.0f} messages a second on {self.server}, {self.churned} stops and starts",
                f"answers: {self.answers}",
                f"{'medians of thirds':32} {'first':>12} {'middle':>12} {'last':>12}   (without the first {WARM_S:.0f} s)",
                *rows,
                *(f"GROWN: {what}" for what in self.grown()),
                *(f"LEFT: {what}" for what in self.left),
            ]
        )


async def run(seconds: float, rate: float, server: PrivateServer, *, churn_s: float = 5.0) -> Soaked:
    """Start everything, measure for so long, end everything cleanly, and look at what is left.

    Args:
        seconds: How long the load lasts.
        rate: Messages a second.
        server: An empty server.
        churn_s: The pause between two stops of an agent.
    """
    soaked = Soaked(seconds, rate, server=f"{server.binary.engine} {'.'.join(map(str, server.binary.version))}")
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        backend = open_backend(server.url, env=ENV)
        await backend.open()
        for name, value in BOUNDS.items():
            await backend.set_meta("meta", name, value)
        await backend.close()
        stage = Stage(server.url, directory, rate)
        stack.callback(stage.kill)
        await stage.start()
        began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            churning = group.create_task(stage.churn(churn_s))
            while (at_s := time.monotonic() - began) < seconds:
                await asyncio.to_thread(_measure, soaked, stage, server.url, at_s)
                await asyncio.sleep(EVERY_S)
            stage.over = True
            await churning
        soaked.churned = stage.churned
        soaked.answers, ended = await stage.stop()
        soaked.left += ended
        soaked.left += await asyncio.to_thread(_look_over, server.url)
    return soaked


def _measure(soaked: Soaked, stage: Stage, url: str, at_s: float) -> None:
    for name, pid in stage.steady.items():
        soaked.add(f"rss_kb {name}", at_s, _rss_kb(pid))
        soaked.add(f"descriptors {name}", at_s, len(list(Path(f"/proc/{pid}/fd").iterdir())))
        tasks = stage.tasks_of(name)
        if tasks is not None:
            soaked.add(f"tasks {name}", at_s, tasks)
    with redis.Redis.from_url(url) as client:
        soaked.add("used_memory", at_s, float(client.info("memory")["used_memory"]))
        soaked.add("keys", at_s, float(client.dbsize()))
        soaked.add("connections", at_s, float(client.info("clients")["connected_clients"]))
        soaked.add("agents known", at_s, float(client.hlen(KEYS.agents())))
        entries = pending = consumers = 0
        for key in client.scan_iter(count=1000, _type="stream"):
            if b":mail:" not in key and key != KEYS.changes().encode():
                entries += int(client.xlen(key))
            try:
                groups = client.xinfo_groups(key)
            except redis.ResponseError:  # it has gone between two looks
                continue
            pending += sum(group["pending"] for group in groups)
            consumers += sum(group["consumers"] for group in groups)
        soaked.add("entries", at_s, entries)
        soaked.add("changes", at_s, float(client.xlen(KEYS.changes())))
        soaked.add("pending", at_s, pending)
        soaked.add("consumers", at_s, consumers)


def _rss_kb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith("VmRSS:")))


def _look_over(url: str) -> Sequence[str]:
    with redis.Redis.from_url(url) as client:
        return [*under_way(client, KEYS), *hygiene.walk(url), *hygiene.work_left(url)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--rate", type=float, default=40.0, help="messages a second")
    parser.add_argument("--engine", choices=sorted(servers.binaries()), default=None)
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: no process is left behind
    with PrivateServer.start(binary=servers.binaries()[asked.engine] if asked.engine else None) as own:
        result = asyncio.run(run(asked.minutes * 60, asked.rate, own))
    print(result)
    sys.exit(1 if result.left or result.grown() else 0)
