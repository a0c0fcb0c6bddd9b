"""The processes of a soak: those that stay, and those that come and go. All of them end by SIGTERM, as in a rolling update."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import redis.asyncio

from reach.backend.keys import KeySpace
from tests.chaos.cast import router_command

ENV = "soak"
KEYS = KeySpace(ENV)
ROUTERS = ("router-1", "router-2")
#: process -> agent_id; those that churn are stopped and started: a twin of one that stays, and one that is alone with its group
AGENTS = {"work-1": "work-1", "twin-a": "twins"}
CHURN = {"twin-b": "twins", "guest": "guest"}
START_S = 60.0
STOP_S = 30.0


class Stage:
    """The processes. `steady`: those that are measured, with their pids."""

    def __init__(self, url: str, directory: Path, rate: float) -> None:
        self._url, self._directory = url, directory
        part = [sys.executable, "-m", "tests.chaos.soak_parts"]
        self._commands = {
            **{name: router_command(url, name, ENV) for name in ROUTERS},
            **{
                name: [*part, "agent", url, agent_id, str(self._figures(name))]
                for name, agent_id in (AGENTS | CHURN).items()
            },
            "client": [*part, "client", url, str(rate), str(self._figures("client"))],
        }
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self.over = False
        self.churned = 0

    def _figures(self, name: str) -> Path:
        return self._directory / f"{name}.json"

    @property
    def steady(self) -> dict[str, int]:
        """name -> pid of those that stay."""
        return {name: self._running[name].pid for name in (*ROUTERS, *AGENTS, "client")}

    def tasks_of(self, name: str) -> int | None:
        """How many asyncio tasks it has; None: it does not say, or not yet."""
        try:
            return int(json.loads(self._figures(name).read_text())["tasks"])
        except FileNotFoundError:
            return None

    async def start(self) -> None:
        """Start everybody, and wait until all agents are registered."""
        for name in (*ROUTERS, *AGENTS, *CHURN):
            self._start(name)
        await self._registered(len({*AGENTS.values(), *CHURN.values()}))
        self._start("client")

    async def churn(self, every_s: float) -> None:
        """Stop and start one that comes and goes, in turn, until it is over."""
        turn = 0
        while not self.over:
            await asyncio.sleep(every_s)
            name = tuple(CHURN)[turn % len(CHURN)]
            turn += 1
            await asyncio.to_thread(self._end, name)
            self._start(name)
            self.churned += 1

    async def stop(self) -> tuple[dict[str, int], list[str]]:
        """End the client, then the agents, then the routers: (answers, who did not end well)."""
        faults = await asyncio.to_thread(self._end, "client")
        for name in (*AGENTS, *CHURN, *ROUTERS):
            faults += await asyncio.to_thread(self._end, name)
        return json.loads(self._figures("client").read_text())["answers"], faults

    def kill(self) -> None:
        """Kill whoever still runs."""
        for one in self._running.values():
            one.kill()
            one.wait()

    def _start(self, name: str) -> None:
        with (self._directory / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(
                self._commands[name], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ}
            )

    def _end(self, name: str) -> list[str]:
        one = self._running[name]
        one.send_signal(signal.SIGTERM)
        try:
            status = one.wait(STOP_S)
        except subprocess.TimeoutExpired:
            one.kill()
            one.wait()
            return [f"{name} did not end within {STOP_S:.0f} s of SIGTERM"]
        tail = (self._directory / f"{name}.log").read_text()[-500:]
        return [f"{name} ended with {status}: {tail}"] if status else []

    async def _registered(self, count: int) -> None:
        async with asyncio.timeout(START_S), redis.asyncio.Redis.from_url(self._url, protocol=2) as client:
            while int(await client.hlen(KEYS.agents())) < count:
                await asyncio.sleep(0.05)
