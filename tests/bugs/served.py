"""Routers, agents and a client in the test's own loop on a real server."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from reach import Agent, Reach
from tests.integration.sdk.world import router


@asynccontextmanager
async def served(url: str, *agents: Agent, routers: int = 1) -> AsyncIterator[Reach]:
    """They run; the client."""
    async with AsyncExitStack() as stack:
        for number in range(routers):
            await stack.enter_async_context(router(url, f"w{number + 1}"))
        for agent in agents:
            await stack.enter_async_context(agent.running(url, grace=0))
        yield await stack.enter_async_context(Reach.connect(url, agent_id="tester"))
