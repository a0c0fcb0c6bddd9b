"""A client, a router and two agents, each behind a proxy of its own, under load; and what is demanded of them when a fault is over.

One process holds them all, so that a test sees every run and every line of log; whose a line is says the context in which it was written.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Self

import redis.asyncio

from reach import Agent, Context, Reach, Receipt
from reach.testing import wait_until
from tests.faults.healing import listening, process
from tests.faults.proxy import FaultProxy
from tests.integration.sdk.world import router
from tests.lag import Lag

#: pytest's record_property; `("recovery", (fault, at whom, seconds))` goes into the table at the end of a run
Note = Callable[[str, object], None]

PARTIES = ("client", "router", "agent")

#: what the protocol leaves a caller beside its own total
SLACK_S = 0.25
#: within so long after the end of a fault everything must go on
RECOVERY_S = 2.0
#: a total that outlives the faults of these tests and the recovery from them
PATIENT_S = 8.0
LOAD_EVERY_S = 0.03
HELD = 6


@dataclass
class Asked:
    """One request: when it was sent, its total, and once it has ended how and after how long."""

    at_s: float
    total_s: float
    took_s: float = 0.0
    receipt: Receipt[Any] | None = None

    @property
    def ended(self) -> Receipt[Any]:
        """Its receipt, which is there."""
        assert self.receipt is not None
        return self.receipt

    @property
    def output(self) -> Any:
        """What came back."""
        return self.ended.output

    @property
    def code(self) -> str:
        """How it ended."""
        return self.ended.code


@dataclass
class Wired:
    """`async with Wired(server.port, server.url) as wired`. Everybody's proxy leads to that server.

    Attributes:
        proxies: By party. The second agent has none: it is never harmed.
        starts: How often each message was begun by a handler.
        again: What was begun after its success was known to its caller.
        go: Lets those end that are held (`hold`).
    """

    port: int
    url: str
    proxies: dict[str, FaultProxy] = field(default_factory=dict)
    starts: Counter[str] = field(default_factory=Counter)
    again: list[str] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    lag: Lag = field(default_factory=Lag)
    patience_s: float = PATIENT_S

    async def __aenter__(self) -> Self:
        self.go = asyncio.Event()
        self._ended: set[str] = set()
        self._stack = AsyncExitStack()
        self.lines = self._stack.enter_context(listening())
        try:
            for party in PARTIES:
                self.proxies[party] = await self._stack.enter_async_context(FaultProxy(self.port))
            await self._stack.enter_async_context(process("router", lambda: router(self.proxies["router"].url)))
            self.agent, self.other = self._agent("worker-1", "probe"), self._agent("worker-2")
            await self._stack.enter_async_context(
                process("agent", lambda: self.agent.running(self.proxies["agent"].url, grace=0))
            )
            await self._stack.enter_async_context(process("other", lambda: self.other.running(self.url, grace=0)))
            self.reach: Reach = await self._stack.enter_async_context(
                process("client", lambda: Reach.connect(self.proxies["client"].url))
            )
            assert (await self.probe()).ok
            self._watch = asyncio.create_task(self.lag.watch())
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._watch.cancel()
        await asyncio.wait([self._watch])
        self.go.set()
        for proxy in self.proxies.values():
            proxy.heal()
        await self._stack.aclose()

    def _agent(self, name: str, *more: str) -> Agent:
        agent = Agent(name, concurrency=64, max_process=60)

        async def echo(body: Any, ctx: Context) -> Any:
            self._begins(ctx)
            return body

        for capability in ("echo", *more):
            agent.capability(capability)(echo)

        @agent.capability("hold")
        async def hold(ctx: Context) -> int:
            self._begins(ctx)
            await self.go.wait()
            return ctx.attempt

        return agent

    def _begins(self, ctx: Context) -> None:
        self.starts[ctx.msg_id] += 1
        if ctx.msg_id in self._ended:
            self.again.append(ctx.msg_id)

    # ------------------------------------------------------------ traffic

    async def request(self, target: str, total_s: float, body: Any = None) -> Asked:
        """Ask, and keep what came of it."""
        one = Asked(time.monotonic(), total_s)
        self.asked.append(one)
        one.receipt = await self.reach.request(target, body, timeout=total_s)
        one.took_s = time.monotonic() - one.at_s
        if one.receipt.ok:
            self._ended.add(one.receipt.msg_id)
        return one

    async def probe(self) -> Receipt[Any]:
        """The whole way, by everybody who has a proxy."""
        return (await self.request("capability:probe", self.patience_s)).ended

    @asynccontextmanager
    async def load(self, every_s: float = LOAD_EVERY_S) -> AsyncIterator[None]:
        """Requests all the while, each of them patient; at the end every one has ended."""
        stop = asyncio.Event()

        async def send(group: asyncio.TaskGroup) -> None:
            number = 0
            while not stop.is_set():
                number += 1
                group.create_task(self.request("capability:echo", self.patience_s, number))
                await asyncio.sleep(every_s)

        async with asyncio.TaskGroup() as group:
            group.create_task(send(group))
            try:
                yield
            finally:
                stop.set()

    @asynccontextmanager
    async def holding(self, total_s: float = 40.0) -> AsyncIterator[list[Asked]]:
        """Messages that are in the hands of both agents meanwhile; at the end they have ended."""
        running = len(self.starts)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self.request("capability:hold", total_s)) for _ in range(HELD)]
            await wait_until(lambda: len(self.starts) >= running + HELD, what="the start of what is held")
            held = self.asked[-HELD:]
            yield held
            self.go.set()
        assert all(task.done() for task in tasks)

    async def asks(self, more: int) -> None:
        """Wait until so many more requests have been sent: under load the measure of how long a fault lasts."""
        end = len(self.asked) + more
        await wait_until(lambda: len(self.asked) >= end, 30, "the load")

    # ------------------------------------------------------------ what is demanded

    async def ended(self, asked: list[Asked], within_s: float = PATIENT_S + 1) -> None:
        """Wait for the receipts of these."""
        await wait_until(lambda: all(one.receipt is not None for one in asked), within_s, "the receipts")

    async def serves(self, since_s: float) -> float:
        """What is asked now is answered well; how long after `since_s` that is, in seconds."""
        assert (await self.probe()).ok
        return self._in_time(since_s)

    async def recovers(self, since_s: float) -> float:
        """So is all that was asked before now and has time left."""
        waiting = [one for one in self.asked if one.receipt is None and one.total_s == self.patience_s]
        assert (await self.probe()).ok
        await self.ended(waiting)
        return self._in_time(since_s)

    def _in_time(self, since_s: float) -> float:
        took_s = time.monotonic() - since_s
        assert took_s < RECOVERY_S + self.lag.allowed_s, f"recovered after {took_s:.2f} s"
        return took_s

    def check(self, codes: Collection[str] = ("ok",), *, forgets: bool = False) -> None:
        """Every caller was answered in time and so, nothing ran twice, and the log says each thing once.

        `forgets`: the server has lost what had ended, which therefore may run again.
        """
        late = [one for one in self.asked if one.took_s > one.total_s + SLACK_S + self.lag.allowed_s]
        assert late == [], self.lag
        assert {one.code for one in self.asked} <= set(codes)
        if not forgets:
            assert self.again == []
            assert [msg_id for msg_id, count in self.starts.items() if count > 1] == []
        assert self.lines.floods() == []


async def kill_connections(admin: redis.asyncio.Redis) -> int:
    """CLIENT KILL TYPE normal, but our own; how many there were."""
    return int(await admin.client_kill_filter(_type="normal", skipme=True))
