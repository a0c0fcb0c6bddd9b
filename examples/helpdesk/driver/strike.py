"""Half-way: kill -9 of one lookup agent and one router, while both have work in their hands."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from examples.helpdesk.driver.stage import LOOKUPS, Stage, StageError
from examples.helpdesk.run_log import Line
from reach.clock import SystemClock

_POLL_S = 0.01
_LOOKS = 500
#: long enough that the server hands the frozen router what comes in; short against the 5 s after which another may claim it
_FROZEN_S = 0.25


@dataclass(frozen=True)
class Strike:
    """What was killed, when (ms of this machine), and the messages whose runs the agent had not ended."""

    agent: str
    router: str
    at_ms: int
    held: frozenset[str]


async def strike(stage: Stage, router: str, half_way: asyncio.Event) -> Strike:
    """Wait until half-way and until one of the lookup agents is busy; then kill. Neither is started again: the others take over.

    Raises:
        StageError: No lookup agent had anything to do.
    """
    await half_way.wait()
    stage.children.freeze(router)
    await asyncio.sleep(_FROZEN_S)
    agent = await _busy_agent(stage)
    stage.children.kill(agent)
    stage.children.kill(router)
    # Read again: it may have ended or begun a run between our look and its death.
    return Strike(agent, router, SystemClock().wall_ms(), open_runs(stage.runs(), agent))


def open_runs(lines: Sequence[Line], agent: str) -> frozenset[str]:
    """The messages that the agent has begun and not ended."""
    begun: set[str] = set()
    for line in lines:
        if line.agent == agent:
            (begun.add if line.what == "start" else begun.discard)(line.msg_id)
    return frozenset(begun)


async def _busy_agent(stage: Stage) -> str:
    for _ in range(_LOOKS):
        agent, held = _busiest(stage.runs())
        if held:
            return agent
        await asyncio.sleep(_POLL_S)
    raise StageError("no lookup agent was busy half-way: there was nothing to take over")


def _busiest(lines: Sequence[Line]) -> tuple[str, frozenset[str]]:
    return max(((agent, open_runs(lines, agent)) for agent in LOOKUPS), key=lambda held: len(held[1]))
