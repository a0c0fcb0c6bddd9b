"""The agent and the client of a soak: `python -m tests.chaos.soak_parts agent|client URL ...`. Each writes its figures into a file."""

import asyncio
import contextlib
import json
import random
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import uvloop

from reach import Agent, Context, Reach, Reject
from reach.errors import Timeout
from tests.chaos.soak_stage import ENV

TELL_EVERY_S = 1.0
TOTAL_S = 5.0
#: what is sent, and how often of 100
KINDS = {"one": 60, "all": 10, "key": 8, "cancel": 8, "reject": 5, "nowait": 5, "fails": 2, "visitor": 2}


@contextlib.asynccontextmanager
async def telling(path: Path, more: Mapping[str, Any]) -> AsyncIterator[None]:
    """Write how many tasks there are, and what `more` has, every second and at the end."""

    def write() -> None:
        part = path.with_suffix(".part")
        part.write_text(json.dumps({"tasks": len(asyncio.all_tasks()), **more}))
        part.replace(path)

    async def tell() -> None:
        while True:
            await asyncio.sleep(TELL_EVERY_S)
            write()

    task = asyncio.create_task(tell())
    try:
        yield
    finally:
        task.cancel()
        write()


async def agent(url: str, agent_id: str, path: Path) -> None:
    """Works a little, rejects or fails where it is asked to."""
    one = Agent(agent_id, concurrency=8, groups=("everybody",))

    @one.capability("work", schema="work.v1")
    async def work(body: dict[str, Any], ctx: Context) -> dict[str, Any]:
        await ctx.progress({"begun": True})
        await asyncio.sleep(body["ms"] / 1000)
        if body.get("rejects"):
            raise Reject("no", "it was asked to")
        if body.get("fails"):
            raise ValueError("it was asked to")
        return {"n": body["n"]}

    async with telling(path, {}):
        await one.serve(url=url, env=ENV)


class Client:
    """Sends at a rate, and does not wait for one before it sends the next."""

    def __init__(self, url: str, reach: Reach) -> None:
        self._url, self._reach = url, reach
        self._rng = random.Random(1)
        self.answers: Counter[str] = Counter()

    async def run(self, rate: float, over: asyncio.Event) -> None:
        """Until it is over; then wait for what is under way."""
        loop = asyncio.get_running_loop()
        n, began = 0, loop.time()
        async with asyncio.TaskGroup() as group:
            while not over.is_set():
                n += 1
                kind = self._rng.choices(tuple(KINDS), tuple(KINDS.values()))[0]
                group.create_task(self._send(kind, {"n": n, "ms": self._rng.randint(5, 60)}))
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(max(began + n / rate - loop.time(), 0)):
                        await over.wait()

    async def _send(self, kind: str, body: dict[str, Any]) -> None:
        options: dict[str, Any] = {"schema": "work.v1", "timeout": TOTAL_S}
        reach = self._reach
        if kind == "all":
            receipts = await reach.request("group:everybody", body, scope="all", **options)
            self.answers.update(f"{kind} {receipt.code}" for receipt in receipts)
        elif kind == "key":
            for _ in range(2):
                self._count(
                    kind, (await reach.request("capability:work", body, key=f"key {body['n']}", **options)).code
                )
        elif kind == "cancel":
            handle = await reach.send("capability:work", body, **options)
            with contextlib.suppress(Timeout):
                await handle.receipt(self._rng.uniform(0, 0.05))
            await handle.cancel()
            self._count(kind, (await handle.receipt()).code)
        elif kind == "nowait":
            await reach.send("capability:work", body, **options)
            self._count(kind, "sent")
        elif kind == "visitor":
            async with Reach.connect(self._url, ENV, agent_id="visitor") as visitor:
                self._count(kind, (await visitor.request("capability:work", body, **options)).code)
        else:
            asked = {**body, "rejects": kind == "reject", "fails": kind == "fails"}
            receipt = await reach.request("capability:work", asked, max_attempts=1, **options)
            self._count(kind, receipt.code)

    def _count(self, kind: str, code: str) -> None:
        self.answers[f"{kind} {code}"] += 1


async def client(url: str, rate: float, path: Path) -> None:
    """A client until SIGTERM."""
    over = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
    async with Reach.connect(url, ENV, agent_id="soak-client") as reach:
        one = Client(url, reach)
        async with telling(path, {"answers": one.answers}):
            await one.run(rate, over)


if __name__ == "__main__":
    part, where, what, figures = sys.argv[1:]
    if part == "agent":
        uvloop.run(agent(where, what, Path(figures)))
    else:
        uvloop.run(client(where, float(what), Path(figures)))
