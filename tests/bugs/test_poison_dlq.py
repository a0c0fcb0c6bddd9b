"""POISON-DLQ: what brings its holder down is counted by the ledger and given up in time; what waits for a retry is in nobody's memory."""

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest

from reach import Agent, Context, Reach, Reject, Retry
from reach.backend import open_backend
from reach.testing import wait_until
from tests.bugs import poisoned_agent
from tests.bugs.served import served
from tests.e2e.processes import ROOT, environ
from tests.faults.crash_world import Call, CrashWorld
from tests.faults.handlers import Handler
from tests.faults.history import History
from tests.faults.process import Process
from tests.integration.sdk.world import router

GOOD = 1_000
SLOTS = 4  # of the one instance
LEASE_MS = 15_000
LIVES = 3

# ---------------------------------------------------------------- B030


class Victims:
    """Makes handlers that a poison kills, with the whole process, before anything can be said."""

    def __init__(self) -> None:
        self.died: list[Process] = []
        self.runs: Counter[str] = Counter()

    def make(self, process: Process, history: History) -> Handler:
        async def work(body: Any, ctx: Context) -> Any:
            self.runs[ctx.msg_id] += 1
            if body == "poison":
                self.died.append(process)
                process.die()
                await asyncio.Event().wait()
            return body

        return work


async def test_B030_one_poison_among_a_thousand_takes_down_max_attempts_lives_and_the_rest_is_served(
    world: CrashWorld,
) -> None:
    victims = Victims()
    await world.router()
    await world.agent("a1", make=victims.make)
    await world.client()
    good = [world.ask(number) for number in range(GOOD // 10)]
    poison = world.ask("poison", timeout=120, max_attempts=LIVES)
    good += [world.ask(number) for number in range(GOOD // 10, GOOD)]

    def open_calls() -> list[Call]:
        return [call for call in good if not call.over]

    await world.until(lambda: victims.died, "the first death")
    # Another instance goes on, long before anything is taken back from the dead: all is done but what it held.
    await world.advance(LEASE_MS // 2)
    assert len(victims.died) == 1
    assert len(open_calls()) < SLOTS
    await world.until(lambda: not open_calls(), "an answer for the others", 2 * LEASE_MS)
    assert not poison.over
    await world.until(lambda: poison.over, "the end of the poison", 120_000)
    assert {code for call in good for code in call.codes} == {"ok"}
    assert [call.task.result().output for call in good] == list(range(GOOD))
    assert len(victims.died) == len(set(victims.died)) == LIVES
    receipt = poison.task.result()
    assert (receipt.status, receipt.code, receipt.attempts) == ("retryable", "agent.lost", LIVES)
    (letter,) = [letter async for letter in world.clients["client"].dead_letters.list()]
    assert (letter.msg_id, letter.id) == (receipt.msg_id, receipt.details["dead_letter"])
    assert [(run["attempt"], run["code"]) for run in letter.attempts] == [(n + 1, "agent.lost") for n in range(LIVES)]
    # Those beside the poison have paid for it with a run each time, and nobody else.
    assert sum(victims.runs.values()) - GOOD <= LIVES * SLOTS
    last = world.ask("the last")
    await world.finish()
    assert (last.codes, len(victims.died)) == (["ok"], LIVES)


@asynccontextmanager
async def supervised(url: str, agent_id: str) -> AsyncIterator[list[int]]:
    """An agent in a process of its own that is started again whenever it ends; how it has ended each time."""
    ended: list[int] = []
    running: list[asyncio.subprocess.Process] = []

    async def start() -> asyncio.subprocess.Process:
        command = [sys.executable, "-m", poisoned_agent.__name__, agent_id]
        made = await asyncio.create_subprocess_exec(*command, env=environ(REACH_REDIS_URL=url), cwd=ROOT)
        running.append(made)
        return made

    async def supervise() -> None:
        while True:
            ended.append(await (await start()).wait())

    task = asyncio.create_task(supervise())
    backend = open_backend(url)
    await backend.open()

    async def registered() -> bool:
        return await backend.registered(agent_id) is not None

    try:
        await wait_until(registered, 30, "the agent has registered")
        await backend.close()
        yield ended
    finally:
        task.cancel()
        await asyncio.wait([task])
        for process in running:
            if process.returncode is None:
                process.kill()
            await process.wait()


@pytest.mark.long
@pytest.mark.processes
async def test_B030_a_real_process_under_a_supervisor_ends_max_attempts_times(redis_url: str) -> None:
    async with router(redis_url), Reach.connect(redis_url) as reach, supervised(redis_url, "one") as ended:
        assert await reach.ask("capability:work", "ready") == "ready"
        poison = await reach.send("capability:work", "poison", timeout=100, max_attempts=2)
        good = [asyncio.ensure_future(reach.request("capability:work", number, timeout=60)) for number in range(GOOD)]
        receipts = await asyncio.gather(*good)
        assert [receipt.output for receipt in receipts] == list(range(GOOD))
        receipt = await poison.receipt()
        assert (receipt.code, receipt.attempts) == ("agent.lost", 2)
        assert [letter.id async for letter in reach.dead_letters.list()] == [receipt.details["dead_letter"]]
        assert await reach.ask("capability:work", "still there") == "still there"
        assert ended == [poisoned_agent.STATUS] * 2


# ---------------------------------------------------------------- B033

SLACK_MS = 3_000  # `due` once a second, and a router that begins anew


class Patience:
    """Makes handlers whose first run asks for another one; when the runs of each message began."""

    def __init__(self) -> None:
        self.began: list[int] = []
        self.holders: list[Process] = []

    def make(self, process: Process, history: History) -> Handler:
        async def work(body: dict[str, Any], ctx: Context) -> int:
            self.began.append(process.clock.monotonic_ms())
            self.holders.append(process)
            if len(self.began) <= body["times"]:
                raise Retry(after=body["after_s"]) if "after_s" in body else RuntimeError("once more")
            return ctx.attempt

        return work


@pytest.mark.parametrize("victims", [("a1",), ("router",), ("router", "a1")], ids="+".join)
@pytest.mark.parametrize("after_s", [0.1, 1, 5, 30])
async def test_B033_who_dies_while_a_retry_waits_takes_nothing_along(
    world: CrashWorld, after_s: float, victims: tuple[str, ...]
) -> None:
    patience = Patience()
    await world.router()
    await world.agent("a1", make=patience.make)
    await world.client()
    call = world.ask({"times": 1, "after_s": after_s}, timeout=120)
    await world.until(lambda: patience.began, "the first run")
    for name in victims:
        world.processes[name].die()
    await world.until(lambda: call.over, "an answer")
    assert (call.codes, call.task.result().output) == (["ok"], 1)
    waited_ms = patience.began[1] - patience.began[0]
    assert after_s * 1000 <= waited_ms <= after_s * 1000 + SLACK_MS
    if "a1" in victims:
        assert patience.holders[0].dead
        assert not patience.holders[1].dead
    await world.finish()


async def test_B033_of_five_ordinary_retries_each_outlives_router_and_agent(world: CrashWorld) -> None:
    """1, 2, 4, 8 and 16 s, each within a fifth."""
    patience = Patience()
    await world.router()
    await world.agent("a1", make=patience.make)
    await world.client()
    call = world.ask({"times": 5}, timeout=120, max_attempts=6)
    for run in range(1, 6):
        await world.until(lambda run=run: len(patience.began) == run, f"run {run}")  # type: ignore[misc]
        for name in ("router", "a1"):
            world.processes[name].die()
    await world.until(lambda: call.over, "an answer")
    assert (call.codes, call.task.result().output) == (["ok"], 6)
    waits = [later - earlier for earlier, later in zip(patience.began, patience.began[1:], strict=False)]
    bounds = [(0.8 * 1000 * 2**n, 1.2 * 1000 * 2**n + SLACK_MS) for n in range(5)]
    assert all(least <= wait <= most for wait, (least, most) in zip(waits, bounds, strict=True)), waits
    await world.finish()


@contextmanager
def killed_at_the_end(url: str) -> Iterator[int]:
    """A worker and an agent in processes of their own; the pid of the agent."""
    commands = (["reach_worker.cli", "run", "--health-port", "0"], [poisoned_agent.__name__, "one"])
    started = [
        subprocess.Popen(
            [sys.executable, "-m", *command],
            env=environ(REACH_REDIS_URL=url),
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for command in commands
    ]
    try:
        yield started[1].pid
    finally:
        for one in started:
            one.kill()
        for one in started:
            one.wait()


@pytest.mark.processes
async def test_B033_router_and_agent_are_killed_by_the_kernel_while_a_retry_waits(redis_url: str) -> None:
    async def waits() -> bool:
        return [leg.state for leg in (await handle.status()).legs] in (["returned"], ["waiting"])

    async with Reach.connect(redis_url) as reach:
        handle = await reach.send("capability:again", timeout=60)
        with killed_at_the_end(redis_url):
            await wait_until(waits, 30, "the back-off")
        with killed_at_the_end(redis_url) as pid:
            receipt = await handle.receipt(30)
    assert (receipt.code, receipt.output) == ("ok", [pid, 2])


# ---------------------------------------------------------------- B034


class Mute(Exception):
    """Cannot even say what is wrong."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


#: what a handler may raise -> (status, code), one and always the same
KINDS: dict[str, tuple[Callable[[], BaseException], str, str]] = {
    "ValueError": (lambda: ValueError("bad"), "retryable", "handler.error"),
    "TimeoutError": (TimeoutError, "retryable", "handler.error"),
    "CancelledError": (asyncio.CancelledError, "retryable", "handler.error"),
    "SystemExit": (lambda: SystemExit(0), "retryable", "handler.error"),
    "KeyboardInterrupt": (KeyboardInterrupt, "retryable", "handler.error"),
    "GeneratorExit": (GeneratorExit, "retryable", "handler.error"),
    "RecursionError": (RecursionError, "retryable", "handler.error"),
    "MemoryError": (MemoryError, "retryable", "handler.error"),
    "Mute": (Mute, "retryable", "handler.error"),
    "BaseExceptionGroup": (
        lambda: BaseExceptionGroup("two", [SystemExit(1), ValueError("x")]),
        "retryable",
        "handler.error",
    ),
    "Retry": (Retry, "retryable", "handler.retry"),
    "Reject": (lambda: Reject("no", "never"), "failed", "handler.rejected"),
}


def made(kind: str) -> BaseException:
    return KINDS[kind][0]()


#: so few to one agent that no circuit opens
A_FEW = 4


def raising(number: int, runs: Counter[str]) -> Agent:
    """Raises the kind that the body names, in the loop or in a thread."""
    agent = Agent(f"raiser-{number}", concurrency=32)

    @agent.capability(f"loop-{number}")
    async def in_the_loop(body: str, ctx: Context) -> None:
        runs[ctx.msg_id] += 1
        raise made(body)

    @agent.capability(f"thread-{number}")
    def in_a_thread(body: str, ctx: Context) -> None:
        runs[ctx.msg_id] += 1
        raise made(body)

    @agent.capability("echo")
    async def echo(body: str) -> str:
        return body

    return agent


@pytest.mark.parametrize("where", ["loop", "thread"])
async def test_B034_whatever_is_raised_ends_as_one_of_failed_and_retryable_and_never_in_silence(
    redis_url: str, where: str
) -> None:
    runs: Counter[str] = Counter()
    agents = [raising(number, runs) for number in range(-(-len(KINDS) // A_FEW))]
    async with served(redis_url, *agents) as reach:
        asked = [
            reach.request(f"capability:{where}-{number // A_FEW}", kind, max_attempts=2)
            for number, kind in enumerate(KINDS)
        ]
        receipts = dict(zip(KINDS, await asyncio.gather(*asked), strict=True))
        for kind, (_, status, code) in KINDS.items():
            receipt = receipts[kind]
            told = (receipt.status, receipt.code, receipt.attempts, runs[receipt.msg_id])
            assert told == (status, code, *((1, 1) if status == "failed" else (2, 2))), kind
        letters = {letter.msg_id async for letter in reach.dead_letters.list()}
        assert letters == {receipt.msg_id for receipt in receipts.values() if receipt.status == "retryable"}
        assert await reach.ask("capability:echo", "still there") == "still there"


async def test_B034_what_a_shutdown_cancels_runs_elsewhere_and_burns_nothing(redis_url: str) -> None:
    """However the handler takes it: it goes, it clings, it gives a result or an error of its own."""
    runs: Counter[str] = Counter()
    began = asyncio.Event()

    def named(name: str) -> Agent:
        agent = Agent(name, concurrency=8)

        @agent.capability("work")
        async def work(body: str, ctx: Context) -> str:
            runs[body] += 1
            if runs[body] > 1:
                return f"{name}, attempt {ctx.attempt}"
            if len(runs) == 3:
                began.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if body == "swallows it":
                    return "half done"
                if body == "raises another":
                    raise ValueError("in a hurry") from None
                raise
            return "never"

        return agent

    bodies = ("goes", "swallows it", "raises another")
    async with served(redis_url) as reach:
        async with named("first").running(redis_url, grace=0):
            handles = [await reach.send("capability:work", body) for body in bodies]
            await began.wait()
        assert [(await handle.status()).state for handle in handles] == ["open"] * 3
        async with named("second").running(redis_url, grace=0):
            receipts = [await handle.receipt(20) for handle in handles]
    assert [receipt.output for receipt in receipts] == ["second, attempt 1"] * 3
    assert runs == dict.fromkeys(bodies, 2)


@pytest.mark.processes
async def test_B034_a_signal_in_the_middle_of_a_run_ends_the_process_and_not_the_message(redis_url: str) -> None:
    async with router(redis_url), Reach.connect(redis_url) as reach, supervised(redis_url, "one") as ended:
        pid, _ = await reach.ask("capability:hold", None)
        handle = await reach.send("capability:hold", pid, timeout=60)

        async def runs() -> bool:
            return [leg.state for leg in (await handle.status()).legs] == ["running"]

        await wait_until(runs, 10, "the run")
        os.kill(pid, signal.SIGTERM)
        other, attempt = (await handle.receipt(30, returns=list[int])).output or [0, 0]
        assert (other != pid, attempt, ended) == (True, 1, [0])
