"""`agent.run()`: a program that is nothing but an agent. What stops it for good is one line, not a traceback."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import uvloop

from reach.errors import BackendError, ConfigError, RegistrationRefused


def run_until_told(agent_id: str, serve: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run it on uvloop until it ends or Ctrl-C comes, also while it only begins.

    Raises:
        RuntimeError: A loop runs in this thread already.
        SystemExit: It cannot run; the text says why, the status is 1.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass  # as it must be
    else:
        raise RuntimeError("agent.run() blocks, and an event loop runs here already: use `await agent.serve()`")
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve())
    except KeyboardInterrupt:
        return  # before anybody listened to the signal: there was nothing to drain yet
    except (RegistrationRefused, ConfigError, BackendError) as error:
        raise SystemExit(f"agent {agent_id!r} cannot run: {error}") from None
