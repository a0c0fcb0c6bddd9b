"""Requests through routers and agents that are killed -9 all the time: nothing lost, nothing run again after it was completed.

`python -m tests.chaos.kill_run --requests 5000` prints what happened and exits 1 when a promise was broken, or was not put to the test.
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import redis
import uvloop

from reach import Agent, Context, Reach, Receipt
from reach.backend import open_backend
from reach.backend.keys import KeySpace
from reach.backend.private_server import PrivateServer
from tests.chaos import ledger_file

ENV = "chaos"
ROUTERS = ("router-1", "router-2")
AGENTS = ("work-1", "work-2", "work-3", "work-4")
WORK_MS = (20, 200)
TOTAL_S = 60.0
TAKEOVER_MS = 17_000
#: how the ledger tells that a dead agent's work was taken from it: its lease, or its processing time, whichever ended first
LOST = ("agent.lost", "timeout.processing")


async def agent(url: str, agent_id: str, path: Path) -> None:
    """Works a little and writes down that it did."""
    book = ledger_file.LedgerFile(path)
    one = Agent(agent_id, concurrency=8)
    rng = random.Random(agent_id)

    @one.capability("work", schema="work.v1")
    async def work(body: dict[str, Any], ctx: Context) -> dict[str, Any]:
        book.write("start", ctx.msg_id, agent_id, time.time_ns() // 1_000_000)
        await asyncio.sleep(rng.uniform(*WORK_MS) / 1000)
        book.write("end", ctx.msg_id, agent_id, time.time_ns() // 1_000_000)
        return {"n": body["n"]}

    await one.serve(url=url, env=ENV)


class Cast:
    """The processes on the stage; one that was killed comes back at once."""

    def __init__(self, url: str, path: Path) -> None:
        self._commands = {
            **{
                name: [
                    sys.executable,
                    "-m",
                    "reach_worker.cli",
                    "run",
                    "--redis-url",
                    url,
                    "--env",
                    ENV,
                    "--worker-id",
                    name,
                    "--health-port",
                    "0",
                    "--log-level",
                    "info",  # `serves` looks for the line that says so
                ]
                for name in ROUTERS
            },
            **{name: [sys.executable, "-m", "tests.chaos.kill_run", "agent", url, name, str(path)] for name in AGENTS},
        }
        self._logs = path.parent
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self.kills: list[tuple[int, str, int]] = []  # (at_ms, name, pid)

    def start(self, name: str) -> None:
        with self._log(name).open("ab") as log:
            self._running[name] = subprocess.Popen(self._commands[name], stdout=subprocess.DEVNULL, stderr=log)

    def serves(self, name: str) -> bool:
        """Whether the router's present process has said that it serves."""
        return f'"pid":{self._running[name].pid},' in self._log(name).read_text()

    def _log(self, name: str) -> Path:
        return self._logs / f"{name}.log"

    def kill(self, name: str) -> None:
        one = self._running[name]
        one.send_signal(signal.SIGKILL)
        self.kills.append((time.time_ns() // 1_000_000, name, one.pid))
        one.wait()

    def stop(self) -> None:
        for one in self._running.values():
            one.kill()
        for one in self._running.values():
            one.wait()


@dataclass
class Report:
    """What a run showed. `broken` names every promise that did not hold."""

    requests: int
    kills: int = 0
    wall_s: float = 0.0
    answers: Counter[str] = field(default_factory=Counter)
    runs: int = 0
    broken: list[str] = field(default_factory=list)
    takeovers_ms: list[int] = field(default_factory=list)
    slowest_s: float = 0.0
    killed: Counter[str] = field(default_factory=Counter)

    @property
    def sometimes(self) -> dict[str, int]:
        """What a long run has to meet, and how often it did: a promise about what never happened was not put to the test."""
        return {
            "a router was killed": sum(self.killed[name] for name in ROUTERS),
            "an agent was killed": sum(self.killed[name] for name in AGENTS),
            "the work of a killed agent was taken over": len(self.takeovers_ms),
            "a handler was run again": max(self.runs - self.requests, 0),
        }

    @property
    def unseen(self) -> list[str]:
        """What this run has not met."""
        return [what for what, times in self.sometimes.items() if not times]

    def __str__(self) -> str:
        takeover = ", ".join(f"{name} {value} ms" for name, value in _quantiles(self.takeovers_ms))
        return "\n".join(
            [
                f"{self.requests} requests in {self.wall_s:.0f} s, {self.kills} kills, {self.runs} runs of the handler",
                f"receipts: {dict(self.answers)}; slowest {self.slowest_s:.1f} s of {TOTAL_S:.0f} s",
                f"takeovers of a killed agent's work: {len(self.takeovers_ms)} ({takeover or 'none'}), from the kill to the ledger's entry",
                f"sometimes: {', '.join(f'{what} ({times})' for what, times in self.sometimes.items())}",
                *(f"UNSEEN: {what}" for what in self.unseen),
                *(f"BROKEN: {what}" for what in self.broken[:20]),
            ]
        )


def _quantiles(values: list[int]) -> list[tuple[str, int]]:
    ordered = sorted(values)
    return (
        [
            (name, ordered[min(len(ordered) - 1, int(len(ordered) * q))])
            for name, q in (("min", 0), ("median", 0.5), ("max", 1))
        ]
        if ordered
        else []
    )


class Answer(NamedTuple):
    """What a caller got, and how the ledger says that it came about: a loss is {attempt, agent, code, at}."""

    n: int
    receipt: Receipt[Any]
    seconds: float
    losses: list[dict[str, Any]]


async def _requests(url: str, inflight: int, more: Callable[[int], bool]) -> list[Answer]:
    """Keep so many requests in flight for as long as `more(n)` says so."""
    answers: list[Answer] = []
    numbers = itertools.takewhile(more, itertools.count())
    async with contextlib.AsyncExitStack() as stack:
        ledger = open_backend(url, env=ENV)
        stack.push_async_callback(ledger.close)
        await ledger.open()
        reach = await stack.enter_async_context(Reach.connect(url=url, env=ENV, agent_id="chaos-client"))

        async def worker() -> None:
            for n in numbers:
                at = time.monotonic()
                receipt = await reach.request("capability:work", {"n": n}, schema="work.v1", timeout=TOTAL_S)
                seconds = time.monotonic() - at
                record = await ledger.inspect(0, receipt.msg_id, 0) if receipt.attempts > 1 else None
                history = [json.loads(line) for line in record.legs[0].history] if record else []
                answers.append(Answer(n, receipt, seconds, [one for one in history if one["code"] in LOST]))

        async with asyncio.TaskGroup() as group:
            for _ in range(inflight):
                group.create_task(worker())
    return answers


async def _killing(cast: Cast, every_s: float, rng: random.Random) -> None:
    """Kill a router and an agent, again and again; the other router serves by then (17 s are promised while one lives)."""
    while True:
        await asyncio.sleep(every_s)
        victim = rng.choice(ROUTERS)
        while not all(cast.serves(name) for name in ROUTERS if name != victim):
            await asyncio.sleep(0.05)
        for name in (victim, rng.choice(AGENTS)):
            await asyncio.to_thread(cast.kill, name)
            cast.start(name)


async def _registered(url: str) -> None:
    async with asyncio.timeout(30):
        with redis.Redis.from_url(url) as raw:
            while int(raw.hlen(KeySpace(ENV).agents())) < len(AGENTS):
                await asyncio.sleep(0.05)


def _judge(
    report: Report,
    answers: list[Answer],
    runs: dict[str, list[ledger_file.Run]],
    kills: list[tuple[int, str, int]],
    slack_ms: int,
) -> None:
    if len(answers) < report.requests:
        report.broken.append(f"{report.requests - len(answers)} requests have no receipt")
    report.requests = len(answers)
    killed = {pid: at_ms for at_ms, _, pid in kills}
    for n, receipt, seconds, losses in answers:
        report.answers[f"{receipt.status}/{receipt.code}"] += 1
        report.slowest_s = max(report.slowest_s, seconds)
        if seconds > TOTAL_S + 0.25:
            report.broken.append(f"request {n} was answered after {seconds:.2f} s")
        if not receipt.ok:
            report.broken.append(f"request {n} ended {receipt.status}/{receipt.code}: {receipt.error_message}")
        starts = [run for run in runs.get(receipt.msg_id, ()) if run.what == "start"]
        report.runs += len(starts)
        again = [run for run in starts if run.at_ms > receipt.finished_at]
        if again:
            report.broken.append(f"{receipt.msg_id} ran again after its completion was recorded: {again}")
        for first, second in itertools.pairwise(run for run in starts if run.pid in killed or run is starts[-1]):
            between = [loss for loss in losses if first.at_ms <= loss["at"] <= second.at_ms]
            most = sum(TAKEOVER_MS + slack_ms + 1200 * 2 ** (loss["attempt"] - 1) for loss in between)
            if second.at_ms - killed[first.pid] > most:
                report.broken.append(
                    f"request {n} began again {second.at_ms - killed[first.pid]} ms after a kill: {between}"
                )
        for loss in losses:
            # The holder had started, or it died between take and start: then it is the agent's last death before the loss.
            holders = [killed[run.pid] for run in starts if run.agent == loss["agent"] and run.pid in killed]
            deaths = holders or [at_ms for at_ms, name, _ in kills if name == loss["agent"]]
            before = [at_ms for at_ms in deaths if at_ms <= loss["at"]]
            if not before:
                report.broken.append(f"request {n} was taken from {loss['agent']}, which lived: {loss}")
                continue
            report.takeovers_ms.append(loss["at"] - max(before))
    if any(ms > TAKEOVER_MS + slack_ms for ms in report.takeovers_ms):
        report.broken.append(f"a takeover took {max(report.takeovers_ms)} ms")


async def run(
    requests: int,
    *,
    inflight: int = 256,
    every_s: float = 2.0,
    seed: int = 1,
    slack_ms: int = 500,
    least_kills: int = 0,
    server: PrivateServer | None = None,
) -> Report:
    """Start everything, send, kill, and judge by what the agents wrote and the callers got.

    Args:
        requests: How many at least.
        inflight: How many at a time.
        every_s: The pause between two kills of a router and an agent.
        seed: Who is killed.
        slack_ms: What a busy machine may add to the 17 s of a takeover (a process needs its time to start).
        least_kills: Requests go on until so many processes have been killed.
        server: An empty server; None starts one.
    """
    report = Report(requests)
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = server or stack.enter_context(PrivateServer.start())
        cast = Cast(server.url, directory / "runs")
        stack.callback(cast.stop)
        for name in (*ROUTERS, *AGENTS):
            cast.start(name)
        await _registered(server.url)
        started = time.monotonic()
        killing = asyncio.create_task(_killing(cast, every_s, random.Random(seed)))
        try:
            answers = await _requests(server.url, inflight, lambda n: n < requests or len(cast.kills) < least_kills)
        finally:
            killing.cancel()
            await asyncio.gather(killing, return_exceptions=True)
        report.wall_s = time.monotonic() - started
        report.kills = len(cast.kills)
        report.killed.update(name for _, name, _ in cast.kills)
        if report.wall_s > 2 * every_s and not cast.kills:
            report.broken.append("nobody was killed: this run shows nothing")
        _judge(report, answers, ledger_file.read(directory / "runs"), cast.kills, slack_ms)
    return report


if __name__ == "__main__":
    if sys.argv[1:2] == ["agent"]:
        uvloop.run(agent(sys.argv[2], sys.argv[3], Path(sys.argv[4])))
    else:
        parser = argparse.ArgumentParser(description=__doc__)
        parser.add_argument("--requests", type=int, default=5000)
        parser.add_argument("--inflight", type=int, default=256)
        parser.add_argument("--every", type=float, default=2.0)
        parser.add_argument("--seed", type=int, default=1)
        asked = parser.parse_args()
        result = asyncio.run(run(asked.requests, inflight=asked.inflight, every_s=asked.every, seed=asked.seed))
        print(result)
        sys.exit(1 if result.broken or result.unseen else 0)
