"""An agent whose process a message can bring down: `python -m tests.bugs.poisoned_agent AGENT_ID`, address by REACH_REDIS_URL."""

import asyncio
import os
import sys
from typing import Any

from reach import Agent, Context, Retry

STATUS = 7


async def work(body: Any, ctx: Context) -> Any:
    """Give it back; a poison ends the process on the spot, as a kill of the kernel would."""
    if body == "poison":
        os._exit(STATUS)
    return body


async def again(ctx: Context) -> list[int]:
    """Only the second run comes to an end."""
    if ctx.attempt == 1:
        raise Retry
    return [os.getpid(), ctx.attempt]


async def hold(body: int | None, ctx: Context) -> list[int]:
    """In the process of that id it comes to no end."""
    if body == os.getpid():
        await asyncio.Event().wait()
    return [os.getpid(), ctx.attempt]


if __name__ == "__main__":
    agent = Agent(sys.argv[1], concurrency=4)
    for handler in (work, again, hold):
        agent.capability(handler.__name__)(handler)
    agent.run(grace=0)
