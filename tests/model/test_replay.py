"""The model is true: random walks of it agree with the backends after every step. Without the guards that are to come, as the steps are."""

from random import Random

import pytest

from reach.backend.private_server import PrivateServer
from tests.contract.memory_place import MemoryPlace
from tests.contract.places import RedisPlace
from tests.model.guards import ALL, TO_COME
from tests.model.ledger import Ledger
from tests.model.partition import Setting
from tests.model.replay import Replay
from tests.model.scenarios import SCENARIOS

STEPS = 40
#: faults that cannot be carried out through a backend
NOT_REPLAYED = {"tail lost", "outage", "handler hangs", "mailbox spoilt", "record expires"}


def replayed(setting: Setting) -> Setting:
    kinds = setting.kinds - NOT_REPLAYED
    if any(told.round > 1 for told in setting.sends):  # the deadlines of a round count from its send
        kinds = kinds - {"total", "ttl"} | {"retryable"}
    return setting._replace(kinds=kinds, faults=6, boxes=4, guards=ALL - TO_COME)


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


async def test_walks_agree_with_real_servers(server: PrivateServer) -> None:
    await walk_on_server(server, 1)


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_many_walks_agree_with_real_servers(server: PrivateServer) -> None:
    await walk_on_server(server, 40)
