"""The model is true: random walks of it agree with the backends after every step."""

import re
from collections import deque
from collections.abc import Callable, Hashable
from functools import cache
from random import Random

import pytest

from reach.backend.private_server import PrivateServer
from tests.contract.memory_place import MemoryPlace
from tests.contract.places import Place, RedisPlace
from tests.model.ledger import Ledger
from tests.model.partition import Setting
from tests.model.replay import Replay, can_follow
from tests.model.scenarios import BY_NAME, SCENARIOS
from tests.model.scene import Step
from tests.model.world import World

STEPS = 40
MAX_STATES = 10_000
BEST = [setting.name for setting in SCENARIOS if setting.wants]
#: faults that cannot be carried out through a backend
NOT_REPLAYED = {"question closes", "outage", "handler hangs", "mailbox spoilt", "record expires"}


def replayed(setting: Setting) -> Setting:
    kinds = setting.kinds - NOT_REPLAYED
    if any(told.round > 1 for told in setting.sends):  # the deadlines of a round count from its send
        kinds = kinds - {"total", "ttl"} | {"retryable"}
    return setting._replace(kinds=kinds, faults=6, boxes=4)


def ways_after(name: str, begins: Callable[[Step], bool], *, few: bool = False) -> list[list[Step]]:
    """To everything that may happen in a scenario after such a step, the shortest way that the model finds. `few`: only to what differs
    in its words."""
    setting = replayed(BY_NAME[name])._replace(faults=3)
    ledger = Ledger(setting)
    start = (ledger.start, False)
    to: dict[tuple[World, bool], list[Step]] = {start: []}
    found: dict[tuple[Hashable, ...], list[Step]] = {}
    frontier = deque([start])
    while frontier and len(to) < MAX_STATES:
        world, has_begun = frontier.popleft()
        for step in ledger.moves(world):
            if not can_follow(setting, world, step):
                continue
            way = [*to[world, has_begun], step]
            if has_begun:
                has_best = tuple(leg.best >= 0 for leg in world.legs)
                what = re.sub(r"\d+", "", step.name)
                found.setdefault((what,) if few else (what, len(world.works), has_best), way)
            after = (ledger.next(step), has_begun or begins(step))
            if after not in to:
                to[after] = way
                frontier.append(after)
    return list(found.values())


def ways_after_a_restart() -> list[list[Step]]:
    """After Redis has lost its tail."""
    return ways_after("lost tail", lambda step: ("restart",) in step.calls)


@cache
def ways_after_an_unsure_answer(name: str, *, few: bool = False) -> list[list[Step]]:
    """After an answer that is kept, or would be if its leg were no broadcast's."""
    return ways_after(name, lambda step: step.name.endswith(("not sure enough: done", "a guess: done")), few=few)


async def follow_all(place: Place, name: str, ways: list[list[Step]]) -> None:
    for way in ways:
        await place.forget_all()
        replay = await Replay.start(place, Ledger(replayed(BY_NAME[name])))
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
    await follow_all(place, "lost tail", ways)
    await place.close()


async def test_what_may_happen_after_a_lost_tail_agrees_with_real_servers(server: PrivateServer) -> None:
    place = RedisPlace("server", server.url)
    await follow_all(place, "lost tail", ways_after_a_restart())
    await place.forget_all()
    await place.close()


@pytest.mark.parametrize("name", BEST)
async def test_what_may_happen_after_an_unsure_answer_agrees_with_the_memory_backend(name: str) -> None:
    place = MemoryPlace()
    await follow_all(place, name, ways_after_an_unsure_answer(name))
    await place.close()


@pytest.mark.parametrize("name", BEST)
async def test_what_may_happen_after_an_unsure_answer_agrees_with_real_servers(
    server: PrivateServer, name: str
) -> None:
    place = RedisPlace("server", server.url)
    await follow_all(place, name, ways_after_an_unsure_answer(name, few=True))
    await place.forget_all()
    await place.close()


def test_after_an_unsure_answer_it_ends_in_every_way() -> None:
    """The ways are about something: each script ends a leg with its best answer in one of them, and a cancel without."""
    ways = [way for name in BEST for way in ways_after_an_unsure_answer(name)]
    ends = {
        way[-1].name.partition(" ")[0].rstrip(":") for way in ways if any(leg.by >= 0 for leg in way[-1].world.legs)
    }
    assert {"route", "take", "settle", "due", "agent"} <= ends


async def test_walks_agree_with_real_servers(server: PrivateServer) -> None:
    await walk_on_server(server, 1)


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_many_walks_agree_with_real_servers(server: PrivateServer) -> None:
    await walk_on_server(server, 40)
