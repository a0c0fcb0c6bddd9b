"""What it costs that a script has to tell the routers: `python -m tests.benchmarks.untold [--rounds N] [--count N]`.

`settle` with and without its argument `records`, in turn; then what a router does with each entry. One result a call, 32 under way, on a
server of its own; us of CPU, of the server as INFO cpu has them: commandstats counts the time in which others had the core, too.
"""

import argparse
import asyncio
import time
from collections.abc import Awaitable, Iterable
from typing import Any

import redis

from reach.backend import Backend, open_backend
from reach.backend.private_server import PrivateServer
from reach.backend.steps import Plan, Send, Settlement, Taken
from reach.delivery.on_behalf import OnBehalf
from reach.delivery.trail import Trail
from reach.routing.index import CapabilityIndex
from reach.tracing.hops import HopRecorder
from reach.tracing.time_base import TimeBase
from tests.benchmarks.measure import ratio, server_cpu_s, spread
from tests.contract.drive import head_of, new_id, success

AGENT, AT_ONCE = "bench", 32
ENVELOPE = b'{"msg_id":"%s","type":"request","timestamp":1,"source":{"agent_id":"bench"},"target":{"pattern":"agent_id:bench"}}'


async def together(calls: Iterable[Awaitable[Any]]) -> None:
    """A few at a time."""
    room = asyncio.Semaphore(AT_ONCE)

    async def one(call: Awaitable[Any]) -> None:
        async with room:
            await call

    await asyncio.gather(*map(one, calls))


async def running(backend: Backend, count: int) -> list[Taken]:
    """So many messages that the agent has taken."""
    for _ in range(count):
        await backend.submit(0, "normal", ENVELOPE % new_id().encode())
    taken: list[Taken] = []
    while entries := [entry for entry in await backend.read_work("bench", [0], 100, 0) if entry.kind == "ingress"]:
        ids = [entry.fields[b"e"][11:47].decode() for entry in entries]
        plan = Plan("deliver", AGENT)
        made = [
            Send(entry, msg_id, head_of(msg_id), (plan,), entry.fields[b"e"])
            for entry, msg_id in zip(entries, ids, strict=True)
        ]
        await backend.route(0, made)
        taken += (await backend.take(0, AGENT, "i1", 100)).taken
    return taken


async def settled(backend: Backend, client: redis.Redis, taken: list[Taken], *, records: bool) -> tuple[float, float]:
    """Calls a second, and us of the server for each."""
    calls = [
        backend.settle(0, AGENT, [Settlement(one.msg_id, 0, one.hand, success(), "i1", records=records)])
        for one in taken
    ]
    began, before = time.perf_counter(), server_cpu_s(client)
    await together(calls)
    took_s = time.perf_counter() - began
    return len(taken) / took_s, (server_cpu_s(client) - before) * 1e6 / len(taken)


async def told(backend: Backend, client: redis.Redis, count: int) -> tuple[float, float]:
    """What a router does with so many entries: us of its CPU and us of the server for each."""
    hops = HopRecorder(backend.record, TimeBase(), worker="bench", node="here", max_records=10 * count)
    on_behalf = OnBehalf(backend, Trail(hops), CapabilityIndex())
    before, cpu, done = server_cpu_s(client), time.process_time(), 0
    while done < count:
        entries = [entry for entry in await backend.read_work("bench", [0], 100, 0) if entry.kind == "receipts"]
        await on_behalf.settle(0, entries)
        await backend.finish_work(0, entries)
        done += len(entries)
    return (time.process_time() - cpu) * 1e6 / count, (server_cpu_s(client) - before) * 1e6 / count


async def measured(url: str, rounds: int, count: int) -> None:
    backend, client = open_backend(url, env="bench"), redis.Redis.from_url(url)
    await backend.open()
    await backend.open_inbox(0, AGENT)
    own, asked, routers = list[tuple[float, float]](), list[tuple[float, float]](), list[tuple[float, float]]()
    for _ in range(rounds):
        own.append(await settled(backend, client, await running(backend, count), records=True))
        asked.append(await settled(backend, client, await running(backend, count), records=False))
        routers.append(await told(backend, client, count))
    for name, found in (("records=1", own), ("without it", asked)):
        rates, costs = zip(*found, strict=True)
        print(f"settle {name}: {spread(rates)} a second, {spread(costs, 1)} us of the server for each")
    print(f"server, without it / with it: {ratio([cost for _, cost in asked], [cost for _, cost in own])}")
    costs, server = zip(*routers, strict=True)
    print(f"and a router for each: {spread(costs)} us of its own, {spread(server, 1)} us of the server")
    await backend.close()
    client.close()


def main(rounds: int = 5, count: int = 2_000) -> None:
    with PrivateServer.start() as server:
        asyncio.run(measured(server.url, rounds, count))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--count", type=int, default=2_000)
    told_args = parser.parse_args()
    main(told_args.rounds, told_args.count)
