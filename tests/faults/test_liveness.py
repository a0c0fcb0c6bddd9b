"""Who stays, who leaves and who comes back: processes that are stopped or killed, servers that hold everybody up, clocks that are wrong."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import pytest
import redis.asyncio

from reach import Agent, Context, Handle, Reach
from reach.backend import open_backend
from reach.backend.private_server import PrivateServer
from reach.errors import BackendError
from reach.registry.offline import read_offline
from reach.testing import TestReach, wait_until
from tests.bugs.living import Witness, agent_process, gone, instances, serving, watched
from tests.faults.crash_world import CrashWorld
from tests.faults.stages import MemoryStage
from tests.integration.sdk.world import router
from tests.servers import StartServer

KILLED = pytest.mark.leaves_work(why="a process is killed, and its consumer stays until it is swept")


@asynccontextmanager
async def env(url: str, *agent_ids: str) -> AsyncIterator[tuple[Reach, Witness, list[asyncio.subprocess.Process]]]:
    """Two routers, agents in processes of their own, a client and a witness; all of them are there."""
    async with AsyncExitStack() as stack:
        for worker in ("w1", "w2"):
            await stack.enter_async_context(router(url, worker))
        reach = await stack.enter_async_context(Reach.connect(url, agent_id="asker"))
        witness = await stack.enter_async_context(watched(url))
        processes = [await stack.enter_async_context(agent_process(url, agent_id)) for agent_id in agent_ids]
        await serving(reach, *agent_ids)
        yield reach, witness, processes


async def leg_of(reach: Reach, handle: Handle) -> str:
    record = await reach.backend.inspect(0, handle.msg_id)
    return record.legs[0].state if record is not None and record.legs else ""


def until(check: Callable[[], Awaitable[bool]], within_s: float, what: str) -> Awaitable[object]:
    return wait_until(check, within_s, what)


# ---------------------------------------------------------------- a process that is stopped


@pytest.mark.processes
@pytest.mark.long
@pytest.mark.timeout(180)
@KILLED
async def test_a_stopped_process_leaves_and_comes_back_cleanly(redis_url: str) -> None:
    """Suspect after three beats, removed after six, what it had is moved; then it goes on, and registers anew."""
    async with env(redis_url, "one", "two") as (reach, witness, (one, _)):
        held = await reach.send("agent_id:one", 1.0, type="block", timeout=100)  # nobody else may take it over
        await until(lambda: _is(reach, held, "running"), 10, "its start")
        one.send_signal(signal.SIGSTOP)
        # What is sent meanwhile lies in its inbox at most until `network` is over, and everybody is answered by the other one.
        early = await asyncio.gather(*(reach.request("capability:quick", timeout=30) for _ in range(10)))
        assert {(receipt.code, receipt.output, receipt.attempts) for receipt in early} == {("ok", "two", 1)}

        async def suspect() -> bool:
            return witness.now.get("one") == "silent"

        await until(suspect, 25, "that it is suspect")
        assert witness.now["two"] == "ready"

        async def removed() -> bool:
            return await reach.backend.registered("one") is None

        await until(removed, 45, "its removal")
        offline, now_ms = await read_offline(reach.backend)
        (left,) = offline.within(now_ms)
        assert (left.agent_id, left.why) == ("one", "silent")
        assert left.seen_at_ms is not None
        assert left.at_ms - left.seen_at_ms >= 30_000
        assert witness.now.keys() == {"two"}
        assert await leg_of(reach, held) != "running"

        one.send_signal(signal.SIGCONT)
        await serving(reach, "one")
        assert (await read_offline(reach.backend))[0].within(now_ms) == []
        again = await reach.request("agent_id:one", 0.0, type="block", timeout=30)
        assert (again.code, again.output) == ("ok", one.pid)
        first = await held.receipt(60)
        assert first.code in {"ok", "route.not_found", "agent.lost"}
        if first.code == "ok":
            assert first.attempts == 2  # what it answered to the first run, when it went on, was stale
        assert "two" not in await gone(reach)


async def _is(reach: Reach, handle: Handle, state: str) -> bool:
    return await leg_of(reach, handle) == state


def worker(name: str, ran: list[tuple[str, str]]) -> Agent:
    agent = Agent(name, concurrency=4)

    @agent.capability("work")
    async def work(ctx: Context) -> str:
        ran.append((name, ctx.msg_id))
        return name

    return agent


async def test_a_stopped_agent_leaves_and_comes_back_by_a_clock_of_its_own() -> None:
    ran: list[tuple[str, str]] = []
    one, two = worker("one", ran), worker("two", ran)
    async with TestReach(one, two) as bus:
        backend = bus.reach.backend
        await bus.pause(one)
        early = [await bus.send("capability:work") for _ in range(8)]
        await bus.advance(14)
        assert [(await handle.receipt(0)).output for handle in early] == ["two"] * 8
        await bus.advance(5)  # three beats are missed
        late = await bus.send("agent_id:one", type="request", timeout=60)
        await bus.advance(5)
        record = await backend.inspect(0, late.msg_id)
        assert record is not None
        assert record.legs[0].state == "waiting"  # it was sent nothing
        assert await backend.registered("one") is not None
        await bus.advance(11)  # six
        assert await backend.registered("one") is None
        offline, now_ms = await read_offline(backend)
        assert [(gone.agent_id, gone.why) for gone in offline.within(now_ms)] == [("one", "silent")]
        await bus.resume(one)
        await bus.advance(8)
        assert await backend.registered("one") is not None
        assert (await read_offline(backend))[0].within(now_ms) == []
        handle = await bus.send("capability:work")
        await bus.kill(two)
        again = await bus.send("capability:work")
        await bus.advance(25)
        assert {(await one_of.receipt(0)).code for one_of in (handle, again)} == {"ok"}
        assert ran[-1][0] == "one"
        assert len(ran) == len(set(ran))


# ---------------------------------------------------------------- a server that holds everybody up


async def freeze(server: PrivateServer, _: redis.asyncio.Redis, seconds: float) -> None:
    """SIGSTOP of the server."""
    os.kill(server.pid, signal.SIGSTOP)
    try:
        await asyncio.sleep(seconds)  # how long the fault lasts
    finally:
        os.kill(server.pid, signal.SIGCONT)


async def sleep(_: PrivateServer, raw: redis.asyncio.Redis, seconds: float) -> None:
    """DEBUG SLEEP."""
    await raw.execute_command("DEBUG", "SLEEP", str(seconds))  # type: ignore[no-untyped-call]


async def pause_all(_: PrivateServer, raw: redis.asyncio.Redis, seconds: float) -> None:
    """CLIENT PAUSE ALL."""
    await raw.client_pause(round(seconds * 1000), all=True)
    await asyncio.sleep(seconds)  # how long the fault lasts


async def pause_writes(_: PrivateServer, raw: redis.asyncio.Redis, seconds: float) -> None:
    """CLIENT PAUSE WRITE: every question is answered, and nobody can beat."""
    await raw.client_pause(round(seconds * 1000), all=False)
    await asyncio.sleep(seconds)  # how long the fault lasts


async def be_a_replica(_: PrivateServer, raw: redis.asyncio.Redis, seconds: float) -> None:
    """READONLY: the same, and each is told so at once."""
    await raw.replicaof("127.0.0.1", "1")
    await asyncio.sleep(seconds)  # how long the fault lasts
    await raw.replicaof("NO", "ONE")


HoldUp = Callable[[PrivateServer, redis.asyncio.Redis, float], Awaitable[None]]


@pytest.mark.processes
@pytest.mark.long
@pytest.mark.timeout(150)
@pytest.mark.parametrize(
    ("hold_up", "seconds"),
    [(freeze, 20), (sleep, 20), (pause_all, 20), (pause_writes, 20), (pause_writes, 40), (be_a_replica, 40)],
)
async def test_a_server_that_holds_everybody_up_removes_nobody(
    start_server: StartServer, hold_up: HoldUp, seconds: float
) -> None:
    server = start_server()
    async with (
        redis.asyncio.Redis.from_url(server.url, socket_timeout=60) as raw,
        env(server.url, "one", "two", "three") as (reach, witness, _),
    ):
        first = {name: await instances(reach, name) for name in ("one", "two", "three")}
        await hold_up(server, raw, seconds)
        # Everybody is there at once, and with the first message.
        receipts = await asyncio.gather(
            *(reach.request(f"agent_id:{name}", 0.0, type="block", timeout=30) for name in first)
        )
        assert [(receipt.code, receipt.attempts) for receipt in receipts] == [("ok", 1)] * 3
        broadcast = await reach.request("capability:quick", scope="all", timeout=30)
        assert sorted(str(one.output) for one in broadcast) == ["one", "three", "two"]
        assert {state for states in witness.seen.values() for state in states} <= {"ready", "busy"}
        assert await gone(reach) == []
        for name, known in first.items():
            assert (await instances(reach, name)).keys() == known.keys()


@pytest.mark.parametrize("how", ["READONLY", "NOREPLICAS", "paused"])
async def test_a_server_that_takes_no_beat_tells_no_moment(start_server: StartServer, how: str) -> None:
    """So that a look at it is none, though it answers every question."""
    server = start_server()
    backend = open_backend(server.url)
    await backend.open()
    async with redis.asyncio.Redis.from_url(server.url) as raw:
        try:
            await backend.register("a", b'{"agent_id":"a"}', "i1", b"{}", None)
            assert await backend.moment()
            if how == "READONLY":
                await raw.replicaof("127.0.0.1", "1")
            elif how == "NOREPLICAS":
                await raw.config_set("min-replicas-to-write", "1")
            else:
                await raw.client_pause(60_000, all=False)
            for step in (lambda: backend.beat("a", "i1", b"{}"), backend.moment):
                with pytest.raises((BackendError, TimeoutError)):
                    async with asyncio.timeout(1):  # paused, it answers when it is over
                        await step()
            assert [last.agent_id for last in (await backend.last_beats(0))[1]] == ["a"]
            await raw.client_unpause()
            await raw.replicaof("NO", "ONE")
            await raw.config_set("min-replicas-to-write", "0")
            assert (await backend.beat("a", "i1", b"{}")).known
            assert await backend.moment()
        finally:
            with suppress(BackendError):
                await backend.close()


# ---------------------------------------------------------------- clocks that are wrong


@pytest.mark.processes
@KILLED
async def test_processes_whose_clocks_are_two_minutes_off_are_like_others(redis_url: str) -> None:
    async with (
        env(redis_url, "right") as (reach, witness, _),
        agent_process(redis_url, "early", REACH_TEST_CLOCK_OFF_S="120"),
        agent_process(redis_url, "late", REACH_TEST_CLOCK_OFF_S="-120"),
    ):
        await serving(reach, "early", "late")
        walls = {name: await reach.request("capability:wall", timeout=10) for name in ("right",)}
        assert walls["right"].ok
        broadcast = await reach.request("capability:wall", scope="all", timeout=15)
        told = {one.target_agent: float(one.output) for one in broadcast if one.output is not None}
        assert told["early"] - told["right"] > 100
        assert told["right"] - told["late"] > 100
        now_ms = await reach.backend.now_ms()
        for name in told:
            assert all(abs(at_ms - now_ms) < 20_000 for at_ms in (await instances(reach, str(name))).values())
        assert {state for states in witness.seen.values() for state in states} == {"ready"}
        assert await gone(reach) == []


@pytest.mark.parametrize("wrong_ms", [-120_000, 120_000])
@pytest.mark.parametrize("who", ["client", "router", "a1", "a2"])
async def test_a_clock_that_is_two_minutes_off_keeps_nobody_and_removes_nobody(who: str, wrong_ms: int) -> None:
    async with CrashWorld(stage=MemoryStage()) as world:
        world.skews = dict.fromkeys(("client", "router", "a1", "a2"), 0) | {who: wrong_ms}
        await world.router()
        await world.agent("a1")
        await world.agent("a2")
        await world.client()
        await world.advance(60_000)
        assert [await world.knows(name) for name in ("a1", "a2")] == [True, True]
        asked = [world.ask({"do": "ok"}, f"agent_id:{name}") for name in ("a1", "a2")]
        await world.until(lambda: all(call.over for call in asked), "the answers")
        assert [call.codes for call in asked] == [["ok"], ["ok"]]
        world.heirs.pop("a1")
        world.processes["a1"].die()
        await world.advance(24_000)  # the last beat may be 5 s old
        assert await world.knows("a1")
        await world.advance(8_500)
        assert [await world.knows(name) for name in ("a1", "a2")] == [False, True]
        await world.finish()


# ---------------------------------------------------------------- one instance of two


async def test_one_instance_of_two_that_dies_counts_no_longer_and_leaves_its_work_to_the_other() -> None:
    ran: list[tuple[str, str]] = []
    first, second = worker("pair", ran), worker("pair", ran)

    @first.capability("hang")
    async def hang() -> str:
        await asyncio.Event().wait()
        return "never"

    @second.capability("hang")
    async def answer() -> str:
        return "the other one"

    async with TestReach(first) as bus:
        hanging = await bus.send("capability:hang", timeout=60)
        await bus.advance(1)
        await bus.start(second)
        backend = bus.reach.backend
        assert len((await backend.registration("pair"))[1]) == 2
        await bus.kill(first)
        handles = [await bus.send("capability:work") for _ in range(10)]
        await bus.advance(2)
        assert {(await handle.receipt(0)).code for handle in handles} == {"ok"}
        assert len(ran) == 10
        await bus.advance(16)  # its lease, and what is left of the second in which it goes on
        receipt = await hanging.receipt(0)
        assert (receipt.output, receipt.attempts) == ("the other one", 2)
        await bus.advance(20)
        assert len((await backend.registration("pair"))[1]) == 1
        assert (await backend.snapshot()).gone == {}
