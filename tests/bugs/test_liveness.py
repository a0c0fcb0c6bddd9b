"""LIVENESS: who is alive and who is not, whatever blocks a process, cuts its connections or starts it anew."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import redis.asyncio

from reach import Agent, Reach, Receipt
from reach.delivery import pulse
from reach.registry.routes import read_index
from reach.testing import TestReach, wait_until
from tests.bugs.living import agent_process, beat_of, gone, instances, serving, watched
from tests.bugs.served import served
from tests.integration.sdk.world import router
from tests.servers import StartServer

KILLED = pytest.mark.leaves_work(why="a process is killed, and its consumer stays until it is swept")

# ---------------------------------------------------------------- B078: what blocks a process does not make it dead


@pytest.mark.processes
@KILLED
@pytest.mark.parametrize("how", ["sleeps", "backtracks", "loads"])
async def test_B078_a_handler_that_blocks_its_process_keeps_its_work_and_its_agent(redis_url: str, how: str) -> None:
    """The loop alone, the interpreter's lock in ever longer pieces, 50 MB of JSON at once."""
    async with (
        router(redis_url),
        Reach.connect(redis_url, agent_id="asker") as reach,
        watched(redis_url) as witness,
        agent_process(redis_url, "one") as one,
    ):
        await serving(reach, "one")
        receipt = await reach.request(f"capability:{how}", 2.5, timeout=50)
        assert (receipt.code, receipt.output, receipt.attempts) == ("ok", one.pid, 1)
        assert witness.seen["one"] <= {"ready", "busy"}
        assert await gone(reach) == []


@pytest.mark.processes
@pytest.mark.long
@pytest.mark.timeout(120)
@KILLED
async def test_B078_a_handler_that_blocks_for_30_s_is_busy_and_callers_of_others_notice_nothing(redis_url: str) -> None:
    async with (
        router(redis_url, "w1"),
        router(redis_url, "w2"),
        Reach.connect(redis_url, agent_id="asker") as reach,
        watched(redis_url) as witness,
        agent_process(redis_url, "one") as one,
        agent_process(redis_url, "two"),
    ):
        await serving(reach, "one", "two")
        blocked = asyncio.create_task(reach.request("agent_id:one", 30.0, type="block", timeout=70))

        async def busy() -> bool:
            return (await beat_of(reach, "one")).get("reason") == "the event loop is blocked"

        await wait_until(busy, 10, "the beat that says so")
        before = await instances(reach, "one")
        answered = []
        while not blocked.done():
            answered += await asyncio.gather(
                *(reach.request("capability:quick", timeout=30) for _ in range(5)),
                reach.request("agent_id:two", 0.0, type="block", timeout=30),
            )
            await asyncio.sleep(0.5)
        receipt = await blocked
        assert (receipt.code, receipt.output, receipt.attempts) == ("ok", one.pid, 1)
        assert {one.code for one in answered} == {"ok"}
        assert witness.seen["one"] <= {"ready", "busy"}
        assert witness.seen["two"] <= {"ready", "busy"}
        assert await gone(reach) == []
        assert (await instances(reach, "one")).keys() == before.keys()


# ---------------------------------------------------------------- B080: no error ends the beats


@asynccontextmanager
async def quick_beats(url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Reach]:
    """An agent that beats five times a second."""
    monkeypatch.setattr(pulse, "EVERY_MS", 200)
    agent = Agent("helper", concurrency=4)

    @agent.capability("echo")
    async def echo(body: int) -> int:
        return body

    async with served(url, agent) as reach:
        yield reach


async def beaten(reach: Reach, since_ms: int) -> None:
    """Wait for a beat after this moment."""

    async def there() -> bool:
        return any(at_ms > since_ms for at_ms in (await instances(reach, "helper")).values())

    await wait_until(there, 10, "the next beat")


async def test_B080_a_connection_that_is_cut_at_every_beat_ends_none(
    redis_url: str, raw: redis.asyncio.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with quick_beats(redis_url, monkeypatch) as reach:
        first = await instances(reach, "helper")
        for _ in range(10):
            await raw.client_kill_filter(_type="normal", skipme=True)
            await beaten(reach, await _now_ms(raw))
        assert (await instances(reach, "helper")).keys() == first.keys()
        assert await gone(reach) == []
        assert (await reach.request("capability:echo", 1, timeout=10)).output == 1


@pytest.mark.parametrize("seconds", [2, pytest.param(6, marks=pytest.mark.long)])
async def test_B080_a_server_that_sleeps_through_beats_ends_none(
    start_server: StartServer, monkeypatch: pytest.MonkeyPatch, seconds: int
) -> None:
    server = start_server()
    async with (
        redis.asyncio.Redis.from_url(server.url, socket_timeout=30) as raw,
        quick_beats(server.url, monkeypatch) as reach,
        watched(server.url) as witness,
    ):
        first = await instances(reach, "helper")
        for _ in range(2):
            await raw.execute_command("DEBUG", "SLEEP", str(seconds))  # type: ignore[no-untyped-call]
            await beaten(reach, await _now_ms(raw))
        assert (await instances(reach, "helper")).keys() == first.keys()
        assert witness.seen["helper"] == {"ready"}
        assert await gone(reach) == []


async def _now_ms(raw: redis.asyncio.Redis) -> int:
    seconds, micros = await raw.time()
    return int(seconds) * 1000 + int(micros) // 1000


# ---------------------------------------------------------------- B082: killed and started again


def counter(name: str = "phoenix") -> Agent:
    agent = Agent(name, concurrency=2)

    @agent.capability("echo")
    async def echo(body: int) -> int:
        return body

    return agent


async def test_B082_of_twenty_that_were_killed_one_after_another_none_is_asked_any_more() -> None:
    """By a clock of its own: twenty lives in twenty seconds, and messages all the time."""
    agent = counter()
    async with TestReach(agent) as bus:
        handles = []
        for life in range(20):
            handles += [await bus.send("capability:echo", life) for _ in range(3)]
            await bus.kill(agent)
            handles.append(await bus.send("capability:echo", life))
            await bus.start(agent)
            handles.append(await bus.send("capability:echo", life))
            await bus.advance(1)
        backend = bus.reach.backend
        await bus.advance(20)
        receipts = [await handle.receipt(0) for handle in handles]
        assert [receipt.code for receipt in receipts] == ["ok"] * 100
        index, now_ms = await read_index(backend)
        since_ms = index.alive_since_ms(now_ms)
        assert len(index.agents["phoenix"].alive(since_ms)) == 1  # what it can do is what the living can
        assert index.agents["phoenix"].free_slots(since_ms) == 2
        await bus.advance(30)
        assert len((await backend.registration("phoenix"))[1]) == 1
        assert (await backend.snapshot()).gone == {}


@pytest.mark.processes
@pytest.mark.long
@pytest.mark.timeout(240)
@KILLED
async def test_B082_a_process_that_is_killed_twenty_times_is_replaced_at_once(redis_url: str) -> None:
    async with (
        router(redis_url),
        Reach.connect(redis_url, agent_id="asker") as reach,
    ):
        asked: list[asyncio.Task[Receipt[Any]]] = []
        for _ in range(20):
            async with agent_process(redis_url, "one") as one:
                await serving(reach, "one")  # the first one; after that the name is known
                receipt = await reach.request("capability:quick", timeout=40)
                assert receipt.code == "ok"
                asked += [asyncio.create_task(reach.request("capability:quick", timeout=40)) for _ in range(4)]
                await asyncio.sleep(0)
                one.send_signal(signal.SIGKILL)
        async with agent_process(redis_url, "one"):
            receipts = await asyncio.gather(*asked)
            assert [receipt.code for receipt in receipts] == ["ok"] * len(asked)

            async def alone() -> bool:
                return len(await instances(reach, "one")) == 1

            await wait_until(alone, 60, "the end of those that were killed")
            assert (await reach.request("capability:quick", timeout=20)).attempts == 1
        assert "one" not in await gone(reach)
