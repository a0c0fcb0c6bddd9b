"""Agents that work until they are cancelled, and callers that give up."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from reach import Agent, Context
from reach.testing import TestReach

Handler = Callable[[Any, Context], Awaitable[Any]]


class Agents:
    """`worker` runs until it is cancelled; `parent` does what it is given."""

    def __init__(self, parent: Handler | None = None) -> None:
        self.began: list[Any] = []
        self.cancelled: list[Any] = []
        self.worker = Agent("worker", concurrency=100, max_process=100)
        self.other = Agent("other", concurrency=100)
        for agent in (self.worker, self.other):
            agent.capability("work", max_process=100)(self._work)
        self.parent = Agent("parent", concurrency=100)
        if parent is not None:
            self.parent.capability("ask")(parent)

    async def _work(self, body: Any, ctx: Context) -> str:
        self.began.append(body)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.append(body)
            raise
        return ""


async def codes(bus: TestReach) -> dict[str, str]:
    """msg_id -> what became of it, of everything that was sent."""
    found: dict[str, str] = {}
    for envelope in bus.sent:
        record = await bus.client_backend.backend.inspect(0, envelope.msg_id)
        if record is not None:
            found[envelope.msg_id] = ",".join(leg.code or leg.state.value for leg in record.legs.values())
    return found


async def given_up(bus: TestReach, waiting: Awaitable[Any]) -> None:
    """Have somebody wait, and cancel it once all are at work."""
    task = asyncio.ensure_future(waiting)
    await bus.settle()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await bus.settle()
    await bus.advance(0.1)
