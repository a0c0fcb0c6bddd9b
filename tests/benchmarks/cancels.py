"""How long after its cancel a running handler is cancelled, and one behind it: `python -m tests.benchmarks.cancels [--count N]`.

Router, agents and client share one loop, a cancel at a time. With the hint lost it would be up to 5 s, the time until the next renewal.
"""

import argparse
import asyncio
import time

from reach import Agent, Context, Reach
from reach.backend.private_server import PrivateServer
from tests.benchmarks import measure
from tests.integration.sdk.world import router


class Stage:
    """`outer` asks `inner`, which works until it is cancelled."""

    def __init__(self) -> None:
        self.began, self.ended = asyncio.Event(), asyncio.Event()
        self.at = dict.fromkeys(("outer", "inner"), 0.0)
        self.outer, self.inner = Agent("outer"), Agent("inner")

        @self.outer.capability("outer.ask")
        async def ask(body: None, ctx: Context) -> None:
            try:
                await ctx.request("inner")
            finally:
                self.at["outer"] = time.perf_counter()

        @self.inner.capability("inner.work")
        async def work(body: None, ctx: Context) -> None:
            self.began.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.at["inner"] = time.perf_counter()
                self.ended.set()

    async def cancelled(self, reach: Reach) -> dict[str, float]:
        """ms after the cancel, for each of both."""
        self.began.clear()
        self.ended.clear()
        handle = await reach.send("outer")
        await self.began.wait()
        cancelled_at = time.perf_counter()
        assert await handle.cancel()
        await self.ended.wait()
        return {name: (at - cancelled_at) * 1000 for name, at in self.at.items()}


async def measured(url: str, count: int) -> list[dict[str, float]]:
    """So many cancels, one after the other."""
    stage = Stage()
    async with (
        router(url),
        stage.outer.running(url, grace=0),
        stage.inner.running(url, grace=0),
        Reach.connect(url, agent_id="bench-client") as reach,
    ):
        await stage.cancelled(reach)
        return [await stage.cancelled(reach) for _ in range(count)]


def main(count: int = 200) -> None:
    with PrivateServer.start() as server:
        found = asyncio.run(measured(server.url, count))
    for name in ("outer", "inner"):
        taken = [each[name] for each in found]
        p50, p99 = measure.percentile(taken, 50), measure.percentile(taken, 99)
        print(f"{name}: cancelled after p50 {p50:.1f} ms, p99 {p99:.1f} ms, most {max(taken):.1f} ms of {count}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    main(parser.parse_args().count)
