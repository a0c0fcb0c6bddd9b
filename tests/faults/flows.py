"""The flows whose every step is made to fail: what is there before, what happens, and how callers may hear of it.

`before` is set up without faults; every step of the processes named in `of` that is made during `during` is a crash point.
"""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tests.contract.places import ENV, KEYS
from tests.faults.crash_world import CrashWorld

Act = Callable[[CrashWorld], Awaitable[None]]


@dataclass(frozen=True)
class Flow:
    """One flow.

    Attributes:
        of: The processes that die, or lose replies, in turn.
        codes: What a caller may be told, whatever has happened. A run without a fault must end with the first one.
        dead_letters: How many there are in the end.
    """

    name: str
    of: tuple[str, ...]
    before: Act
    during: Act
    codes: frozenset[str]
    usual: str
    dead_letters: int = 0
    after: Act | None = None


FLOWS: dict[str, Flow] = {}


def flow(
    of: str, codes: str = "ok", *, before: Act, dead_letters: int = 0, after: Act | None = None
) -> Callable[[Act], Act]:
    """Register the decorated coroutine function as what happens in a flow. `codes`: the usual one first; `-`: usually nobody hears any."""

    def add(during: Act) -> Act:
        usual, *others = codes.split() or ["-"]
        told = {code for code in (usual, *others) if code != "-"}
        name = during.__name__
        FLOWS[name] = Flow(name, tuple(of.split()), before, during, frozenset(told), usual, dead_letters, after)
        return during

    return add


async def everybody(world: CrashWorld) -> None:
    """A router, an agent, a client."""
    await world.router()
    await world.agent("a1")
    await world.client()


async def two_agents(world: CrashWorld) -> None:
    await everybody(world)
    await world.agent("a2")


async def nobody_works(world: CrashWorld) -> None:
    await world.router()
    await world.client()


async def answered(world: CrashWorld) -> None:
    """Wait for every caller."""
    await world.until(lambda: all(call.over for call in world.calls), "an answer for every caller")


async def quiet(world: CrashWorld) -> None:
    """Wait until nothing is left to do."""
    await world.until(world.quiet, "the end of every message")


async def plain_agent(world: CrashWorld) -> None:
    """p1 is registered by a plain entry, and its inbox is read by nobody."""
    await nobody_works(world)
    await register_plainly(world)


def control(world: CrashWorld, op: str, **fields: object) -> Awaitable[str]:
    """Append a control entry about p1."""
    entry = {"op": op, "reply_to": world.mailbox, "agent_id": "p1", "instance_id": "p1.1", **fields}
    return world.place.append(KEYS.control(), {"c": json.dumps(entry).encode()})


async def register_plainly(world: CrashWorld) -> None:
    await control(world, "register", env=ENV, capabilities=[{"name": "work"}])
    await world.until(lambda: world.knows("p1"), "the registration of p1")


async def lies(world: CrashWorld, key: str) -> bool:
    """Whether an entry is there."""
    return bool(await world.place.entries(key))
