"""A router, two agents that echo, and a client, in the test's own loop on a real server."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Self

from reach import Agent, Reach, Receipt
from tests.bugs.served import served

AGENTS = ("echo-1", "echo-2")


def echo_agent(agent_id: str) -> Agent:
    """Gives back what it gets."""
    agent = Agent(agent_id, concurrency=16)

    @agent.capability("echo")
    async def echo(body: Any) -> Any:
        return body

    return agent


@asynccontextmanager
async def town(url: str) -> AsyncIterator[Reach]:
    """It, running; its client."""
    async with served(url, *map(echo_agent, AGENTS)) as reach:
        yield reach


class Load:
    """Requests all the time: `async with Load(reach) as load`; at its end every one of them has its receipt."""

    EVERY_S = 0.02

    def __init__(self, reach: Reach, timeout_s: float = 4.0) -> None:
        self._reach, self._timeout_s = reach, timeout_s
        self._stopped = asyncio.Event()
        self.asked = 0
        self.receipts: list[Receipt[Any]] = []
        #: (asked at, answered at), by time.monotonic
        self.spans: list[tuple[float, float]] = []

    async def __aenter__(self) -> Self:
        self._group = asyncio.TaskGroup()
        await self._group.__aenter__()
        self._group.create_task(self._go_on())
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._stopped.set()
        await self._group.__aexit__(*exc_info)  # type: ignore[arg-type]

    async def _go_on(self) -> None:
        for number in itertools.count():
            if self._stopped.is_set():
                return
            self.asked += 1
            self._group.create_task(self._ask(number))
            await asyncio.sleep(self.EVERY_S)

    async def _ask(self, number: int) -> None:
        began = time.monotonic()
        self.receipts.append(await self._reach.request("capability:echo", number, timeout=self._timeout_s))
        self.spans.append((began, time.monotonic()))
