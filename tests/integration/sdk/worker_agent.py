"""An agent for tests that need a process: `python -m tests.integration.sdk.worker_agent AGENT_ID`, address by REACH_REDIS_URL."""

import asyncio
import os
import sys
import time
from typing import Any

from reach import Agent, Context

agent = Agent(sys.argv[1], concurrency=2)


@agent.capability("work")
async def work(seconds: float) -> int:
    """Wait so long without blocking, and say who did it."""
    await asyncio.sleep(seconds)
    return os.getpid()


@agent.capability("block")
async def block(seconds: float) -> int:
    """Block the event loop so long."""
    time.sleep(seconds)  # noqa: ASYNC251 - that is what is tested
    return os.getpid()


@agent.capability("echo")
async def echo(body: Any, ctx: Context) -> Any:
    """Give it back."""
    return [body, ctx.attempt]


if __name__ == "__main__":
    agent.run()
