"""An agent for tests that need a process: `python -m tests.integration.sdk.worker_agent AGENT_ID...`, address by REACH_REDIS_URL."""

import asyncio
import os
import sys
import time
from typing import Any

from reach import Agent, Context


async def work(seconds: float) -> int:
    """Wait so long without blocking, and say who did it."""
    await asyncio.sleep(seconds)
    return os.getpid()


async def block(seconds: float) -> int:
    """Block the event loop so long."""
    time.sleep(seconds)  # noqa: ASYNC251 - that is what is tested
    return os.getpid()


async def echo(body: Any, ctx: Context) -> Any:
    """Give it back."""
    return [body, ctx.attempt]


def made(agent_id: str) -> Agent:
    """One that does all of it."""
    agent = Agent(agent_id, concurrency=2)
    for handler in (work, block, echo):
        agent.capability(handler.__name__)(handler)
    return agent


async def serve_all(agent_ids: list[str]) -> None:
    """Several in one process."""
    await asyncio.gather(*(made(agent_id).serve() for agent_id in agent_ids))


if __name__ == "__main__":
    if len(sys.argv) == 2:
        made(sys.argv[1]).run()
    else:
        asyncio.run(serve_all(sys.argv[1:]))
