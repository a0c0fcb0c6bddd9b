"""A circuit opens, and its probe closes it: counted, asked and told by steps that may each be the last of their process."""

from tests.contract.places import KEYS
from tests.faults.crash_world import CrashWorld
from tests.faults.flows import answered, everybody, flow

OPENS = 5


async def _fails(world: CrashWorld, times: int) -> None:
    for _ in range(times):
        world.ask({"do": "fail"}, max_attempts=1)
        await answered(world)


async def four_have_failed(world: CrashWorld) -> None:
    await everybody(world)
    await _fails(world, OPENS - 1)


@flow("a1 router", "handler.error agent.lost", before=four_have_failed, dead_letters=OPENS)
async def circuit_opens(world: CrashWorld) -> None:
    """The fifth failure: whoever dies, the circuit is open, and the env is told so."""
    await _fails(world, 1)
    await world.until(lambda: _told(world), "what is told of the circuit")


async def opened_half_a_minute_ago(world: CrashWorld) -> None:
    await four_have_failed(world)
    await _fails(world, 1)
    await world.advance(29_700)
    world.calls.clear()


@flow("a1 router", before=opened_half_a_minute_ago, dead_letters=OPENS)
async def circuit_closes(world: CrashWorld) -> None:
    """The probe goes, and the second message after it; where the probe's holder dies, the next one goes 30 s later."""
    world.ask({"do": "ok"}, timeout=110, ttl=110)
    world.ask({"do": "ok"}, timeout=110, ttl=110)
    await answered(world)
    await world.until(lambda: _taken_back(world), "the end of what is told")


async def _told(world: CrashWorld) -> bool:
    return await world.place.type_of(KEYS.circuit()) == "hash"


async def _taken_back(world: CrashWorld) -> bool:
    return not await _told(world)
