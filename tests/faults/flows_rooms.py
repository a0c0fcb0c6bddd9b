"""Messages that wait for room at an agent: whoever dies on the way, each is served, and nothing of their queue is left."""

from tests.contract.places import KEYS
from tests.faults.crash_world import CrashWorld
from tests.faults.flows import answered, everybody, flow, two_agents
from tests.faults.flows_lines import heard

ROOM = KEYS.room(0, "a1", "all")


async def nobody_stands_there(world: CrashWorld) -> None:
    assert [key for key in await world.place.keys() if "}:room:" in key] == []


async def ask(world: CrashWorld, *what: str) -> None:
    """One after the other: the first runs for a while, the others wait for room, the older before the younger."""
    for body in ({"do": "sleep", "ms": 500}, *({"do": do} for do in what)):
        world.ask(body, timeout=90, ttl=90)
        await world.advance(5)


async def one_each(world: CrashWorld) -> None:
    """Every agent may have one message, and every router knows it."""
    await world.allow("max_inflight_per_agent", 1)
    await world.advance(1_000)


async def two_with_one_each(world: CrashWorld) -> None:
    await two_agents(world)
    await one_each(world)


async def one_runs_and_two_wait(world: CrashWorld) -> None:
    await everybody(world)
    await one_each(world)
    await ask(world, "ok", "ok")

    async def wait() -> bool:
        return len(await world.place.scores(ROOM)) == 2

    await world.until(wait, "two in the queue")


@flow("router a1", before=one_runs_and_two_wait, after=nobody_stands_there)
async def two_wait_for_room(world: CrashWorld) -> None:
    """The run ends, and calls the older one, whose end calls the younger one."""
    await answered(world)


@flow("router a1 a2", before=two_with_one_each, after=nobody_stands_there)
async def three_wait_for_the_room_of_two(world: CrashWorld) -> None:
    """One of them comes back, and waits once more."""
    await ask(world, "fail once", "ok", "ok", "ok")
    await answered(world)
    await heard(world)
