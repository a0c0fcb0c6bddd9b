"""`agent.run()` and what stops it: one line, or a wait for a twin that is dead."""

import asyncio
import warnings
from collections.abc import Coroutine
from typing import Any

import pytest

from reach import Agent, ConfigError, RegistrationRefused
from reach.errors import BackendDenied
from reach.sdk.agent import TWIN_MS
from reach.sdk.blocking import run_until_told
from reach.testing import TestReach
from tests.unit.sdk.shops import agent_with


async def work() -> str:
    return "done"


def fails(error: BaseException) -> Coroutine[Any, Any, None]:
    async def serve() -> None:
        raise error

    return serve()


@pytest.mark.parametrize("error", [RegistrationRefused("no"), BackendDenied("wrong password"), ConfigError("no URL")])
def test_what_cannot_run_ends_in_one_line(error: Exception) -> None:
    with pytest.raises(SystemExit) as caught:
        run_until_told("one", lambda: fails(error))
    assert caught.value.code == f"agent 'one' cannot run: {error}"
    assert caught.value.__suppress_context__


def test_an_early_interrupt_is_an_ordinary_end() -> None:
    run_until_told("one", lambda: fails(KeyboardInterrupt()))


@pytest.mark.parametrize("url", ["nothing", "http://localhost"])
def test_a_bad_url_ends_in_one_line(url: str) -> None:
    with pytest.raises(SystemExit, match="agent 'one' cannot run"):
        agent_with(work).run(url)


async def test_run_in_a_loop_names_serve() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeError, match=r"await agent.serve\(\)"):
            agent_with(work).run("memory://")


async def test_an_agent_without_a_handler_does_not_serve() -> None:
    with pytest.raises(ConfigError, match="has no handler"):
        await Agent("one").serve("memory://")


async def test_a_twin_that_was_killed_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    killed = agent_with(work)
    async with TestReach(killed) as bus:
        await bus.kill(killed)
        run = agent_with(work, weight=3).new_run(bus.place)
        starting = asyncio.create_task(run.start(TWIN_MS))
        await bus.advance(3)
        assert not starting.done()
        assert "alive with another declaration" in caplog.text
        await bus.advance(17)
        await starting
        assert await bus.ask("work") == "done"
        await run.kill()


@pytest.mark.parametrize("patient", [True, False])
async def test_a_twin_that_beats_is_not_waited_for_longer_than_a_beat(patient: bool) -> None:
    async with TestReach(agent_with(work)) as bus:
        run = agent_with(work, weight=3).new_run(bus.place)
        starting = asyncio.create_task(run.start(TWIN_MS if patient else 0))
        await bus.advance(8 if patient else 0.1)
        assert starting.done()
        with pytest.raises(RegistrationRefused, match="another declaration"):
            await starting
