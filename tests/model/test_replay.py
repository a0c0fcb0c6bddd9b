"""The model is true: random walks of it agree with the backends after every step."""

import re
from collections import deque
from random import Random

import pytest

from reach.backend.private_server import PrivateServer
from tests.contract.memory_place import MemoryPlace
from tests.contract.places import Place, RedisPlace
from tests.model.ledger import Ledger
from tests.model.partition import Setting
from tests.model.replay import Replay
from tests.model.scenarios import BY_NAME, SCENARIOS
from tests.model.scene import Step
from tests.model.world import World

STEPS = 40
MAX_STATES = 10_000
#: faults that cannot be carried out through a backend
NOT_REPLAYED = {"outage", "handler hangs", "mailbox spoilt", "record expires"}


def replayed(setting: Setting) -> Setting:
    kinds = setting.kinds - NOT_REPLAYED
    if any(told.round > 1 for told in setting.sends):  # the deadlines of a round count from its send
        kinds = kinds - {"total", "ttl"} | {"retryable"}
    return setting._replace(kinds=kinds, faults=6, boxes=4)


def ways_after_a_restart() -> list[list[Step]]:
    """To everything that may happen after Redis has lost its tail, the shortest way that the model finds."""
    ledger = Ledger(replayed(BY_NAME["lost tail"])._replace(faults=3))
    start = (ledger.start, False)
    to: dict[tuple[World, bool], list[Step]] = {start: []}
    found: dict[tuple[str, int], list[Step]] = {}
    frontier = deque([start])
    while frontier and len(to) < MAX_STATES:
        world, was_lost = frontier.popleft()
        for step in ledger.moves(world):
            way = [*to[world, was_lost], step]
            if was_lost:
                found.setdefault((re.sub(r"\d+", "", step.name), len(world.works)), way)
            after = (ledger.next(step), was_lost or ("restart",) in step.calls)
            if after not in to:
                to[after] = way
                frontier.append(after)
    return list(found.values())


async def follow_all(place: Place, ways: list[list[Step]]) -> None:
    for way in ways:
        await place.forget_all()
        replay = await Replay.start(place, Ledger(replayed(BY_NAME["lost tail"])))
        for step in way:
            await replay.follow(step)


async def walk_on_server(server: PrivateServer, walks: int) -> None:
    place = RedisPlace("server", server.url)
    for setting in SCENARIOS:
        ledger = Ledger(replayed(setting))
        for seed in range(walks):
            await place.forget_all()
            replay = await Replay.start(place, ledger)
            await replay.walk(Random(seed), STEPS)
    await place.forget_all()
    await place.close()


@pytest.mark.parametrize("setting", SCENARIOS, ids=lambda setting: setting.name)
async def test_walks_agree_with_the_memory_backend(setting: Setting) -> None:
    ledger = Ledger(replayed(setting))
    for seed in range(60):
        place = MemoryPlace()
        replay = await Replay.start(place, ledger)
        await replay.walk(Random(seed), STEPS)
        await place.close()


async def test_what_may_happen_after_a_lost_tail_agrees_with_the_memory_backend() -> None:
    ways = ways_after_a_restart()
    told = {step.name for way in ways for step in way}
    assert len(ways) > 80
    assert {"held", "lost, the handler is cancelled"} <= {name.partition(": ")[2] for name in told if "renew" in name}
    place = MemoryPlace()
    await follow_all(place, ways)
    await place.close()


async def test_what_may_happen_after_a_lost_tail_agrees_with_real_servers(server: PrivateServer) -> None:
    place = RedisPlace("server", server.url)
    await follow_all(place, ways_after_a_restart())
    await place.forget_all()
    await place.close()


async def test_walks_agree_with_real_servers(server: PrivateServer) -> None:
    await walk_on_server(server, 1)


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_many_walks_agree_with_real_servers(server: PrivateServer) -> None:
    await walk_on_server(server, 40)
