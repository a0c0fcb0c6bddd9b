"""`agent.run()` and what stops it: one line."""

import warnings
from collections.abc import Coroutine
from typing import Any

import pytest

from reach import Agent, ConfigError, RegistrationRefused
from reach.errors import BackendDenied
from reach.sdk.blocking import run_until_told
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
