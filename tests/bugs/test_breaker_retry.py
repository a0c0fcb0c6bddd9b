"""Circuits that let too much through, and layers of retries that multiply each other."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from reach import Agent, Context
from reach.backend.private_server import PrivateServer
from reach.sdk.receipts import Receipt
from reach.testing import TestReach
from tests.faults.crash_world import Call, CrashWorld
from tests.faults.history import History
from tests.faults.process import Process
from tests.faults.stages import MemoryStage, RedisStage, Stage

OPENS, OPEN_MS, PROCESSING_MS = 5, 30_000, 15_000
#: how many an agent of the crash world runs at once
AT_ONCE = 4


class Hanging:
    """What an agent does that hangs until it is well: each start is written down."""

    def __init__(self, well_at_ms: int = 10**9) -> None:
        self.well_at_ms = well_at_ms
        self.starts: list[int] = []

    def make(self, process: Process, _: History) -> Callable[[dict[str, Any], Context], Awaitable[Any]]:
        async def work(body: dict[str, Any], ctx: Context) -> int:
            self.starts.append(process.clock.monotonic_ms())
            if self.starts[-1] < self.well_at_ms:
                await asyncio.Event().wait()
            return ctx.attempt

        return work

    @property
    def opened_at_ms(self) -> int:
        """The fifth run has timed out."""
        return self.starts[OPENS - 1] + PROCESSING_MS


def receipts(calls: list[Call]) -> list[Receipt[Any]]:
    return [call.task.result() for call in calls]


async def storm(world: CrashWorld, hanging: Hanging, count: int, timeout: int) -> list[Call]:
    """So many messages at once for an agent that hangs, over two routers."""
    await world.router("router-1")
    await world.router("router-2")
    await world.client()
    await world.agent("a1", make=hanging.make)
    calls = [world.ask({"do": "hang"}, timeout=timeout, ttl=timeout) for _ in range(count)]
    await world.until(lambda: all(call.over for call in calls), "an answer for every caller", 2 * 1000 * timeout)
    return calls


@pytest.fixture
def stage(contract_server: tuple[str, PrivateServer | None]) -> Stage:
    _, server = contract_server
    return MemoryStage() if server is None else RedisStage(server.url)


@pytest.mark.timeout(240)
async def test_B118_a_storm_meets_one_probe_in_30_s_over_two_routers(stage: Stage) -> None:
    """200 messages for an agent that hangs: what lay in its inbox goes back, what has timed out comes again, and none starts but probes."""
    hanging = Hanging()
    async with CrashWorld(stage=stage) as world:
        calls = await storm(world, hanging, 200, 110)
        opened_ms = hanging.opened_at_ms
        before = [at_ms for at_ms in hanging.starts if at_ms < opened_ms]
        probes = [at_ms for at_ms in hanging.starts if at_ms >= opened_ms]
        assert len(before) <= OPENS + AT_ONCE
        assert 1 <= len(probes) <= 3
        gaps = [later - earlier for earlier, later in zip([opened_ms, *probes], probes, strict=False)]
        assert all(gap >= OPEN_MS for gap in gaps), gaps
        told = Counter(receipt.code for receipt in receipts(calls))
        assert told["circuit.open"] >= 200 - len(hanging.starts)
        assert set(told) <= {"circuit.open", "timeout.processing", "timeout.total"}
        waiting = [receipt for receipt in receipts(calls) if receipt.code == "circuit.open"]
        assert {receipt.status for receipt in waiting} == {"retryable"}
        assert all(0 < (receipt.retry_after_ms or 0) <= OPEN_MS for receipt in waiting)
        assert {receipt.attempts for receipt in waiting} == {0}
        await world.finish()


async def test_B118_who_waits_behind_an_open_circuit_goes_when_it_closes(stage: Stage) -> None:
    hanging = Hanging()
    async with CrashWorld(stage=stage) as world:
        hanging.well_at_ms = world.clock.monotonic_ms() + 50_000
        calls = await storm(world, hanging, 40, 100)
        assert {receipt.code for receipt in receipts(calls)} == {"ok"}
        probes = [at_ms for at_ms in hanging.starts if at_ms >= hanging.opened_at_ms]
        assert probes[0] - hanging.opened_at_ms >= OPEN_MS
        assert probes[-1] - probes[0] < 10_000  # all that waited, soon after the first
        await world.finish()


async def test_B118_another_agent_gets_what_the_open_one_does_not(stage: Stage) -> None:
    hanging, well = Hanging(), Hanging(well_at_ms=0)
    async with CrashWorld(stage=stage) as world:
        await world.router("router-1")
        await world.router("router-2")
        await world.client()
        await world.agent("a1", make=hanging.make)
        held = [world.ask({"do": "hang"}, "agent_id:a1", timeout=35) for _ in range(2 * AT_ONCE)]
        await world.until(lambda: all(call.over for call in held), "the end of what hangs")
        await world.agent("a2", make=well.make)
        began = len(hanging.starts)
        calls = [world.ask({"do": "ok"}) for _ in range(20)]
        await world.until(lambda: all(call.over for call in calls), "the answers")
        assert {receipt.code for receipt in receipts(calls)} == {"ok"}
        assert (len(well.starts), len(hanging.starts) - began) == (20, 0)
        await world.finish()


def failing(agent_id: str, runs: Counter[str], ends: Callable[[str], Any]) -> Agent:
    agent = Agent(agent_id, concurrency=8)

    @agent.capability(agent_id)
    async def work(body: str, ctx: Context) -> Any:
        runs[body] += 1
        return await ends(body)

    return agent


async def test_B118_one_kill_of_an_agent_with_8_in_hand_keeps_nothing_from_its_successor() -> None:
    runs: Counter[str] = Counter()

    async def hang_once(body: str) -> str:
        if runs[body] == 1 and body.startswith("held"):
            await asyncio.Event().wait()
        return body

    agent = failing("work", runs, hang_once)
    async with TestReach(agent) as bus:
        held = [await bus.send("capability:work", f"held {number}", timeout=60) for number in range(8)]
        await bus.advance(1)
        await bus.kill(agent)
        await bus.start(agent)
        assert await bus.ask("capability:work", "at once") == "at once"
        await bus.advance(18)
        assert await bus.ask("capability:work", "after the leases") == "after the leases"
        await bus.advance(5)
        assert [(await handle.receipt(1)).attempts for handle in held] == [2] * 8


# ---------------------------------------------------------------- B121: retries of retries


async def test_B121_a_message_runs_as_often_as_its_attempts_say_whatever_the_sdk_sends_again() -> None:
    """The client's own repeats, after a lost reply, are duplicates: they run nothing."""
    runs: Counter[str] = Counter()

    async def fail(_: str) -> None:
        raise TimeoutError

    async with TestReach(failing("work", runs, fail)) as bus:
        bus.client_backend.lose_reply("submit", 2)
        asked = asyncio.create_task(bus.request("capability:work", "one", max_attempts=4, timeout=60))
        await bus.advance(20)
        receipt = await asked
        assert (receipt.code, receipt.attempts, runs["one"]) == ("handler.error", 4, 4)
        await bus.advance(60)
        assert runs["one"] == 4


@pytest.mark.parametrize(("parents", "children"), [(1, 1), (1, 3), (2, 1), (2, 3)])
async def test_B121_nested_requests_run_as_often_as_their_attempts_multiply(parents: int, children: int) -> None:
    """Nothing multiplies but what the handler's author has written: the attempts of both, each as it says."""
    runs: Counter[str] = Counter()

    async def fail(_: str) -> None:
        raise TimeoutError

    inner, outer = failing("inner", runs, fail), Agent("outer")

    @outer.capability("outer")
    async def ask(body: str, ctx: Context) -> Any:
        runs["outer"] += 1
        return await ctx.ask("capability:inner", body, max_attempts=children)

    async with TestReach(inner, outer) as bus:
        asked = asyncio.create_task(bus.request("capability:outer", "x", max_attempts=parents, timeout=120))
        await bus.advance(60)
        receipt = await asked
        assert (receipt.code, receipt.attempts) == ("handler.error", parents)
        assert (runs["outer"], runs["x"]) == (parents, parents * children)


async def test_B121_a_childs_total_is_never_over_its_parents_rest() -> None:
    rests: dict[str, int] = {}

    async def hang(_: str) -> None:
        await asyncio.Event().wait()

    inner, outer = failing("inner", Counter(), hang), Agent("outer")

    @outer.capability("outer")
    async def ask(body: float | None, ctx: Context) -> Any:
        await bus.clock.sleep(2_000)
        rests[ctx.msg_id] = bus.clock.monotonic_ms()
        return (await ctx.request("capability:inner", "x", timeout=body)).code

    async with TestReach(inner, outer) as bus:
        for timeout in (None, 3.0, 500.0):
            began_ms, sent = bus.clock.monotonic_ms(), len(bus.sent)
            asked = asyncio.create_task(bus.request("capability:outer", timeout, timeout=10, max_attempts=1))
            await bus.advance(11)
            await asked
            child = next(envelope for envelope in bus.sent[sent:] if envelope.target.pattern == "capability:inner")
            left_ms = began_ms + 10_000 - max(rests.values())
            assert child.timeouts.total_ms is not None
            assert child.timeouts.total_ms <= left_ms + 1, timeout
            if timeout == 3.0:
                assert child.timeouts.total_ms == 3_000
