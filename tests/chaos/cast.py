"""The processes of a run, and those who kill them and cut their connections."""

import asyncio
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import redis.asyncio
import redis.exceptions

from tests.chaos.worker_agent import ENV, up_mark

ROUTERS = ("router-1", "router-2")
#: process -> the agent_id that it serves; the twins are two instances of one agent
AGENTS = {"work-1": "work-1", "work-2": "work-2", "twin-a": "twins", "twin-b": "twins"}
SENDER = "sender"
CUT_EVERY_S = 1.0
#: a cut takes so many of the connections that are open
CUT_PART = 4


class Kill(NamedTuple):
    """One kill -9."""

    at_ms: int
    name: str
    pid: int


def named(url: str, name: str) -> str:
    """The address for a program that says its name to the server, so that it is known whose connections are cut."""
    return f"{url}?client_name={name}"


def router_command(url: str, name: str, env: str = ENV) -> list[str]:
    """A `reach-worker`. Its log has the line that says it serves."""
    options = {"redis-url": named(url, name), "env": env, "worker-id": name, "health-port": "0", "log-level": "info"}
    return [sys.executable, "-m", "reach_worker.cli", "run", *(f"--{key}={value}" for key, value in options.items())]


class Cast:
    """The processes on the stage; one that was killed comes back at once."""

    def __init__(self, url: str, path: Path) -> None:
        agent = [sys.executable, "-m", "tests.chaos.worker_agent"]
        self._commands = {
            **{name: router_command(url, name) for name in ROUTERS},
            **{name: [*agent, named(url, name), agent_id, str(path)] for name, agent_id in AGENTS.items()},
        }
        self._book, self._logs = path, path.parent
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self.kills: list[Kill] = []

    def start(self, name: str) -> None:
        with self.log(name).open("ab") as log:
            self._running[name] = subprocess.Popen(self._commands[name], stdout=subprocess.DEVNULL, stderr=log)

    def serves(self, name: str) -> bool:
        """Whether its present process has said that it serves."""
        pid = self._running[name].pid
        if name in AGENTS:
            return up_mark(self._book, pid).exists()
        return f'"pid":{pid},' in self.log(name).read_text()

    def log(self, name: str) -> Path:
        """What it has said so far, in all its lives."""
        return self._logs / f"{name}.log"

    def ended(self) -> list[str]:
        """Who has ended without having been killed."""
        return [name for name, one in self._running.items() if one.poll() is not None]

    def kill(self, name: str) -> None:
        one = self._running[name]
        one.send_signal(signal.SIGKILL)
        self.kills.append(Kill(time.time_ns() // 1_000_000, name, one.pid))
        one.wait()

    def stop(self) -> None:
        for one in self._running.values():
            one.kill()
        for one in self._running.values():
            one.wait()


async def killing(cast: Cast, every_s: float, rng: random.Random, more: Callable[[], bool]) -> None:
    """Kill a router and an agent, again and again; the other router serves by then (17 s are promised while one lives).

    And only an agent that is back from its last death: one that never came back could keep no promise to anybody.
    """
    while more():
        await asyncio.sleep(every_s)
        victim = rng.choice(ROUTERS)
        while not all(cast.serves(name) for name in ROUTERS if name != victim):
            await asyncio.sleep(0.05)
        while not (up := [name for name in AGENTS if cast.serves(name)]):
            await asyncio.sleep(0.05)
        for name in (victim, rng.choice(up)):
            await asyncio.to_thread(cast.kill, name)
            cast.start(name)


class Cutter:
    """Cuts connections at random, of everybody; `cut` says whose, and how many."""

    def __init__(self, url: str, rng: random.Random) -> None:
        self._url, self._rng = url, rng
        self.cut: Counter[str] = Counter()

    async def run(self, more: Callable[[], bool]) -> None:
        """Once a second a quarter of all connections, while `more` says so."""
        async with redis.asyncio.Redis.from_url(self._url, protocol=2) as client:
            own = await client.client_id()
            while more():
                await asyncio.sleep(CUT_EVERY_S)
                rows = [row for row in await client.client_list() if int(row["id"]) != own]
                for row in self._rng.sample(rows, -(-len(rows) // CUT_PART)):
                    if await self._kill(client, int(row["id"])):
                        self.cut[row["name"]] += 1

    @staticmethod
    async def _kill(client: redis.asyncio.Redis, number: int) -> bool:
        """Cut one. False: it has ended by itself."""
        return bool(await client.client_kill_filter(_id=str(number)))
