"""Agents in processes of their own: a loop that is blocked, a signal, a kill."""

import asyncio
import os
import signal
import time
from typing import Any

import msgspec
import pytest

from reach import Reach
from reach.backend.private_server import PrivateServer
from reach.testing import wait_until
from tests.integration.sdk.world import agent_process, router
from tests.servers import StartServer

pytestmark = pytest.mark.processes

STARTS_S = 60.0  # a process imports for a second; on a machine that others use as well, for many


async def beat_of(reach: Reach, agent_id: str) -> dict[str, Any]:
    _, beats = await reach.backend.last_beats(0)
    found: dict[str, Any] = next((msgspec.json.decode(p.beat) for p in beats if p.agent_id == agent_id), {})
    return found


async def registered(reach: Reach, agent_id: str) -> bool:
    return (await reach.backend.registration(agent_id))[0] is not None and bool(await beat_of(reach, agent_id))


@pytest.mark.leaves_work(why="a process is killed, and its consumer stays until it is swept")
async def test_a_blocked_loop_is_busy_and_not_dead(redis_url: str) -> None:
    async with router(redis_url), Reach.connect(redis_url) as reach, agent_process(redis_url, "one"):
        await wait_until(lambda: registered(reach, "one"), STARTS_S, "the registration")
        handle = await reach.send("capability:block", 3.0)

        async def busy() -> bool:
            return bool((await beat_of(reach, "one")).get("state") == "busy")

        await wait_until(busy, 3, "the beat that says busy")
        assert (await beat_of(reach, "one"))["reason"] == "the event loop is blocked"
        receipt = await handle.receipt(5)
        assert (receipt.ok, receipt.attempts) == (True, 1)

        async def ready() -> bool:
            return bool((await beat_of(reach, "one")).get("state", "ready") == "ready")

        await wait_until(ready, 3, "the beat that says ready again")


@pytest.mark.leaves_work(why="a process is killed, and its consumer stays until it is swept")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_drains(redis_url: str, number: signal.Signals) -> None:
    async with (
        router(redis_url),
        Reach.connect(redis_url) as reach,
        agent_process(redis_url, "one") as first,
        agent_process(redis_url, "two") as second,
    ):
        await wait_until(lambda: registered(reach, "one"), STARTS_S, "the registration")
        await wait_until(lambda: registered(reach, "two"), STARTS_S, "the registration")
        handles = [await reach.send("capability:work", 1.0) for _ in range(8)]

        async def running() -> bool:
            states = [leg.state for handle in handles for leg in (await handle.status()).legs]
            return states.count("running") == 4

        await wait_until(running, STARTS_S, "two at work on each")
        first.send_signal(number)
        assert await asyncio.wait_for(first.wait(), 10) == 0
        receipts = [await handle.receipt(15) for handle in handles]
        assert [receipt.code for receipt in receipts] == ["ok"] * 8
        assert {receipt.attempts for receipt in receipts} == {1}
        assert {receipt.output for receipt in receipts} == {first.pid, second.pid}
        stored, beats = await reach.backend.registration("one")
        assert not beats
        assert stored is None or b"gone_at" in stored


async def test_a_signal_drains_every_agent_of_a_process(redis_url: str) -> None:
    async with router(redis_url), Reach.connect(redis_url) as reach, agent_process(redis_url, "one", "two") as both:
        await wait_until(lambda: registered(reach, "one"), STARTS_S, "the registration")
        await wait_until(lambda: registered(reach, "two"), STARTS_S, "the registration")
        handles = [await reach.send(f"agent_id:{name}", 0.5, type="request") for name in ("one", "two")]
        both.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(both.wait(), 10) == 0
        for name, handle in zip(("one", "two"), handles, strict=True):
            _, beats = await reach.backend.registration(name)
            assert not beats
            await handle.cancel()


@pytest.mark.leaves_work(why="a process is killed, and its consumer stays until it is swept")
@pytest.mark.long
async def test_a_killed_agent_is_taken_over(redis_url: str) -> None:
    async with (
        router(redis_url),
        Reach.connect(redis_url) as reach,
        agent_process(redis_url, "one") as first,
    ):
        await wait_until(lambda: registered(reach, "one"), STARTS_S, "the registration")
        handle = await reach.send("capability:work", 0.5)

        async def running() -> bool:
            return [leg.state for leg in (await handle.status()).legs] == ["running"]

        await wait_until(running, STARTS_S, "the start")
        first.kill()
        began = time.monotonic()
        async with agent_process(redis_url, "two") as second:
            receipt = await handle.receipt(25)
            assert (receipt.output, receipt.attempts) == (second.pid, 2)
            assert time.monotonic() - began < 17 + 2 + 1  # the lease, the first back-off, the run


async def test_an_agent_that_waits_for_its_redis_can_be_stopped(start_server: StartServer) -> None:
    server: PrivateServer = start_server()
    url = server.url
    await asyncio.to_thread(server.kill)
    async with agent_process(url, "one") as process:

        def listens() -> bool:
            with open(f"/proc/{process.pid}/status", encoding="ascii") as status:
                caught = next(line for line in status if line.startswith("SigCgt"))
            return bool(int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1)

        await wait_until(listens, STARTS_S, "its signal handler")
        os.kill(process.pid, signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 10) == 0
