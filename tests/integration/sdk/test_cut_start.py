"""An agent that is told to end while it starts: it takes leave, and is nobody's ghost until the reaper comes."""

import asyncio
from typing import Any

import pytest
import redis

from reach import Agent, Reach
from reach.backend.keys import KeySpace
from reach.sdk import stopping
from reach.sdk.places import Place
from reach.sdk.runtime import AgentRun
from reach.testing import wait_until
from tests.integration.sdk.world import router

CONTROL = KeySpace("dev").control()


def made(agent_id: str) -> Agent:
    agent = Agent(agent_id)

    @agent.capability("echo")
    async def echo(body: Any) -> Any:
        return body

    return agent


def waiting(url: str) -> int:
    """How many entries nobody has answered."""
    with redis.Redis.from_url(url) as client:
        return int(client.xlen(CONTROL))


async def is_gone(reach: Reach, agent_id: str) -> bool:
    stored, beats = await reach.backend.registration(agent_id)
    return not beats and (stored is None or b"gone_at" in stored)


async def test_the_signal_that_comes_as_it_has_just_started(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = made("one")
    new_run = agent.new_run

    def hasty(place: Place) -> AgentRun:
        run = new_run(place)
        start = run.start

        async def start_and_be_told(wait_ms: int = 0) -> None:
            await start(wait_ms)
            for stop in stopping._STOPS[asyncio.get_running_loop()]:
                stop.set()

        monkeypatch.setattr(run, "start", start_and_be_told)
        return run

    monkeypatch.setattr(agent, "new_run", hasty)
    async with router(redis_url), Reach.connect(redis_url) as reach:
        await agent.serve(redis_url)
        assert not agent.instances
        assert await is_gone(reach, "one")


async def test_what_is_cut_off_while_it_registers(redis_url: str) -> None:
    async with Reach.connect(redis_url) as reach:
        serving = asyncio.create_task(made("two").serve(redis_url))

        await wait_until(lambda: bool(waiting(redis_url)), 10, "its wish to be registered")
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving
        async with router(redis_url):
            await wait_until(lambda: not waiting(redis_url), 10, "that somebody has heard all of it")
            assert await is_gone(reach, "two")
