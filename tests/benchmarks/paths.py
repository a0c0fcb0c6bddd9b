"""How fast a message travels: reach beside the hand-written path of `limits`, in turn, in one run, on one server.

Every role is a process of its own, as in life: client, router, agent, server. Printed per row: rate, p50 and p99, and the CPU that
client, router, agent and server burn per message. `python -m tests.benchmarks.paths [--rounds N] [--count N]`.
"""

import argparse
import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import redis
import uvloop

from reach import Agent, Context, Reach
from reach.backend.keys import KeySpace
from reach.backend.private_server import PrivateServer
from tests.benchmarks import limits, measure

ENV = "bench"
#: about 600 bytes as an envelope
BODY = {"text": "lorem ipsum dolor sit amet " * 8, "max_words": 50, "lang": "en"}
AGENT_ID = "summarize-01"


async def agent(url: str) -> None:
    """One agent with one trivial handler."""
    one = Agent(AGENT_ID, concurrency=256)

    @one.capability("summarize", schema="text.summarize.v1")
    async def summarize(body: dict[str, Any], ctx: Context) -> dict[str, str]:
        return {"summary": "lorem ipsum dolor sit amet"}

    await one.serve(url=url, env=ENV)


async def client(url: str, mode: str, count: int, inflight: int) -> dict[str, Any]:
    """request: `inflight` at a time until `count` are answered; send: one way, until every one is settled."""
    latencies: list[float] = []
    left = iter(range(count))
    async with Reach.connect(url=url, env=ENV, agent_id="bench-client") as reach:
        await reach.request("capability:summarize", BODY, schema="text.summarize.v1")
        started, cpu = time.perf_counter(), time.process_time()

        async def worker() -> None:
            for _ in left:
                at = time.perf_counter()
                if mode == "request":
                    receipt = await reach.request("capability:summarize", BODY, schema="text.summarize.v1")
                    assert receipt.ok, receipt
                else:
                    await reach.send("capability:summarize", BODY, schema="text.summarize.v1")
                latencies.append(time.perf_counter() - at)

        async with asyncio.TaskGroup() as group:
            for _ in range(inflight):
                group.create_task(worker())
        used = time.process_time() - cpu
        if mode == "send":
            await asyncio.to_thread(_settled, url)
        return {"latencies": latencies, "wall_s": time.perf_counter() - started, "cpu_s": used}


def _settled(url: str) -> None:
    keys = KeySpace(ENV)
    with redis.Redis.from_url(url) as raw:
        while raw.xlen(keys.ingress(0, "normal")) or raw.zcard(keys.due(0)):
            time.sleep(0.002)


@contextlib.contextmanager
def running(*commands: list[str]) -> Iterator[list[subprocess.Popen[bytes]]]:
    """The processes, killed at the end."""
    started = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for command in commands]
    try:
        yield started
    finally:
        for one in started:
            one.kill()
        for one in started:
            one.wait()


def _measured(
    server: PrivateServer, roles: list[subprocess.Popen[bytes]], command: list[str], count: int
) -> dict[str, float]:
    with redis.Redis.from_url(server.url) as raw:
        before = [measure.process_cpu_s(role.pid) for role in roles]
        server_before = measure.server_cpu_s(raw)
        result = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=300).stdout)
        server_after = measure.server_cpu_s(raw)
    spent = [(measure.process_cpu_s(role.pid) - was) / count * 1e6 for role, was in zip(roles, before, strict=True)]
    return {
        "rate": count / result["wall_s"],
        "p50_ms": measure.percentile(result["latencies"], 50) * 1e3,
        "p99_ms": measure.percentile(result["latencies"], 99) * 1e3,
        "client_us": result["cpu_s"] / count * 1e6,
        "router_us": spent[0],
        "agent_us": spent[1],
        "server_us": (server_after - server_before) / count * 1e6,
    }


def by_hand(count: int, inflight: int) -> dict[str, float]:
    """One round of the hand-written path."""
    with PrivateServer.start() as server:
        with redis.Redis.from_url(server.url) as raw:
            limits.prepare(raw)
        module = [sys.executable, "-m", "tests.benchmarks.limits"]
        with running([*module, "router", server.url], [*module, "responder", server.url]) as roles:
            command = [
                *module,
                "requester",
                server.url,
                str(count),
                str(inflight),
                json.dumps({**_ENVELOPE, "payload": {"body": BODY}}),
            ]
            return _measured(server, roles, command, count)


_ENVELOPE = {
    "type": "request",
    "version": "1.0",
    "timestamp": 1735113600123,
    "source": {"agent_id": "bench-client", "node_id": "node-a"},
    "target": {"pattern": "capability:summarize"},
    "correlation_id": "0192f3c4-7a1b-7c3d-9e5f-000000000000",
    "ttl_ms": 30000,
    "priority": 5,
}


def by_reach(mode: str, count: int, inflight: int) -> dict[str, float]:
    """One round of reach, with everything it does: ledger, leases, receipts, hop records."""
    with PrivateServer.start() as server:
        module = [sys.executable, "-m", "tests.benchmarks.paths"]
        worker = [
            sys.executable,
            "-m",
            "reach_worker.cli",
            "run",
            "--redis-url",
            server.url,
            "--env",
            ENV,
            "--health-port",
            "0",
            "--log-level",
            "warning",
        ]
        with running(worker, [*module, "agent", server.url]) as roles:
            _registered(server.url)
            with redis.Redis.from_url(server.url) as raw:
                memory = int(raw.info("memory")["used_memory"])
                figures = _measured(
                    server, roles, [*module, "client", server.url, mode, str(count), str(inflight)], count
                )
                raw.delete(KeySpace(ENV).events(0))
                figures["memory_bytes"] = (int(raw.info("memory")["used_memory"]) - memory) / count
            return figures


def _registered(url: str) -> None:
    deadline = time.monotonic() + 30
    with redis.Redis.from_url(url) as raw:
        while not raw.hexists(KeySpace(ENV).agents(), AGENT_ID):
            if time.monotonic() > deadline:
                raise TimeoutError("the agent did not register in 30 s")
            time.sleep(0.05)


def row(name: str, rounds: list[dict[str, float]], limit: list[dict[str, float]] | None) -> None:
    """One line: medians with their ranges; beside the limit the ratio of the rates, round by round."""
    column = {key: [one[key] for one in rounds] for key in rounds[0]}
    cpu = " / ".join(measure.spread(column[f"{who}_us"]) for who in ("client", "router", "agent", "server"))
    times = f"p50 {measure.spread(column['p50_ms'], 2)} p99 {measure.spread(column['p99_ms'], 2)} ms"
    print(
        f"{name:22} {measure.spread(column['rate'])} a second | {times} | client/router/agent/server us {cpu}",
        flush=True,
    )
    if limit:
        print(
            f"{'':22} of the hand-written path's rate: {measure.ratio(column['rate'], [one['rate'] for one in limit])}",
            flush=True,
        )
    if "memory_bytes" in column:
        print(f"{'':22} memory per remembered message: {measure.spread(column['memory_bytes'])} bytes", flush=True)


def main(rounds: int, count: int) -> None:
    """Every row in turn, `rounds` times."""
    print(f"# paths: {rounds} rounds in turn, {count} messages, median (min-max); {os.cpu_count()} cores", flush=True)
    hand: dict[int, list[dict[str, float]]] = {1: [], 64: []}
    reach: dict[str, list[dict[str, float]]] = {"request 1": [], "request 64": [], "send 64": []}
    for _ in range(rounds):
        for inflight, into in hand.items():
            n = count if inflight > 1 else max(count // 10, 200)
            into.append(by_hand(n, inflight))
            reach[f"request {inflight}"].append(by_reach("request", n, inflight))
        reach["send 64"].append(by_reach("send", count, 64))
    for inflight, figures in hand.items():
        row(f"by hand, {inflight} in flight", figures, None)
        row(f"reach request, {inflight}", reach[f"request {inflight}"], figures)
    row("reach one way, 64", reach["send 64"], None)


if __name__ == "__main__":
    if sys.argv[1:2] == ["agent"]:
        uvloop.run(agent(sys.argv[2]))
    elif sys.argv[1:2] == ["client"]:
        print(json.dumps(uvloop.run(client(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])))), flush=True)
    else:
        parser = argparse.ArgumentParser(description=__doc__)
        parser.add_argument("--rounds", type=int, default=3)
        parser.add_argument("--count", type=int, default=5000)
        asked = parser.parse_args()
        main(asked.rounds, asked.count)
