"""Functions of the user: which of them block, and how those are called beside the event loop."""

import asyncio
import contextvars
import functools
import inspect
import threading
from collections.abc import Callable
from typing import Any


def is_async(function: Callable[..., Any]) -> bool:
    """Whether a call of it gives something to await; also through a partial, or an object that is called."""
    inner = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    return inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(getattr(inner, "__call__", None))  # noqa: B004


async def in_thread(call: Callable[[], Any], hold_until: Callable[[asyncio.Future[Any]], None]) -> Any:
    """Call it in a thread of its own, which no exit of the process waits for.

    A thread cannot be stopped: cancelling ends the wait alone, and `hold_until` keeps what the caller holds until the thread has ended.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()
    context = contextvars.copy_context()

    def finish(value: Any, error: BaseException | None) -> None:
        # As a pair: a future refuses StopIteration, and would then never end.
        if not ended.done():
            ended.set_result((value, error))

    def run() -> None:
        value, error = None, None
        try:
            value = context.run(call)
        except BaseException as raised:  # noqa: BLE001 - the user's handler: SystemExit too must become an answer
            error = raised
        if not loop.is_closed():
            loop.call_soon_threadsafe(finish, value, error)

    threading.Thread(target=run, name="reach-handler", daemon=True).start()
    hold_until(ended)
    value, error = await asyncio.shield(ended)
    if error is not None:
        raise error
    return value
