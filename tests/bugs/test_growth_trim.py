"""GROWTH-TRIM: what has ended leaves nothing behind, and nobody who is gone keeps anything from going."""

import json

from reach.backend.bounds import SETTINGS
from reach.backend.keys import LANES
from tests.contract.places import ENV, KEYS, RedisPlace
from tests.faults.crash_world import CrashWorld
from tests.faults.flows import everybody, nobody_works

KEPT_MS = 90_000  # how long the record of a message is kept that had 30 s, from its acceptance
WARM, MANY, AT_ONCE = 40, 200, 100
DEAD, BROADCASTS = 50, 5
#: what is kept of the events is bounded by their number, whatever the traffic
KEPT = {KEYS.events(0)}


async def through(world: CrashWorld, count: int) -> None:
    """Send so many through, and wait until their records are over."""
    for _ in range(0, count, AT_ONCE):
        calls = [world.ask({"do": "ok"}) for _ in range(min(count, AT_ONCE))]
        await world.until(lambda calls=calls: all(call.over for call in calls), "answers")  # type: ignore[misc]
        assert {code for call in calls for code in call.codes} == {"ok"}
    world.calls.clear()
    await world.advance(KEPT_MS + 10_000)


async def sizes(world: CrashWorld) -> dict[str, int]:
    """Key -> bytes, as the server says it."""
    assert isinstance(world.place, RedisPlace)
    kept = [key for key in await world.place.keys() if ":lock:" not in key]  # leases come and go
    return {key: await world.place.raw.memory_usage(key, samples=0) for key in kept}


async def test_B039_what_went_through_is_gone_with_its_record(world: CrashWorld) -> None:
    await everybody(world)
    await through(world, WARM)
    before = await sizes(world)
    await through(world, MANY)
    after = await sizes(world)
    assert after.keys() == before.keys()
    for key in (*KEYS.work(0), *(KEYS.inbox(0, "a1", lane) for lane in LANES)):
        assert await world.place.entries(key) == [], key
    grown = {key: (before[key], size) for key, size in after.items() if key not in KEPT and size > before[key] * 1.1}
    assert not grown
    assert len(await world.place.entries(KEYS.events(0))) <= bound("max_events")


def bound(name: str) -> int:
    """The default of a field of `meta`."""
    return next(setting.default for setting in SETTINGS if setting.name == name)


async def test_B041_fifty_dead_subscribers_keep_nothing(world: CrashWorld) -> None:
    await nobody_works(world)
    names = [f"p{number}" for number in range(DEAD)]
    for name in names:  # who registers, and is never heard of again
        entry = {"op": "register", "reply_to": world.mailbox, "agent_id": name, "instance_id": f"{name}.1", "env": ENV}
        await world.place.append(KEYS.control(), {"c": json.dumps(entry | {"groups": ["all"]}).encode()})
    for name in names:
        await world.until(lambda name=name: world.knows(name), f"the registration of {name}")  # type: ignore[misc]
    calls = [world.ask({"n": number}, "group:all", scope="all", type="event") for number in range(BROADCASTS)]
    for name in names:
        await world.until(lambda name=name: lies(world, name), f"the broadcasts for {name}")  # type: ignore[misc]
    await world.until(lambda: all(call.over for call in calls), "the end of every broadcast")
    assert {len(call.codes) for call in calls} == {DEAD}
    await world.advance(60_000)
    assert [key for key in await world.place.keys() if ":inbox:" in key] == []
    assert not [name for name in names if await world.knows(name)]
    assert await world.place.due() == {}


async def lies(world: CrashWorld, name: str) -> bool:
    """Whether all broadcasts have come into an inbox."""
    return len(await world.place.entries(KEYS.inbox(0, name, "normal"))) == BROADCASTS
