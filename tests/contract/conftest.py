"""Every test here runs on every backend: redis, valkey, memory."""

from collections.abc import AsyncIterator, Iterator

import pytest

from reach.backend.private_server import PrivateServer
from tests import hygiene, servers
from tests.contract.drive import Drive
from tests.contract.memory_place import MemoryPlace
from tests.contract.places import Place, RedisPlace


@pytest.fixture(scope="session", params=[*servers.selected(), "memory"])
def contract_server(request: pytest.FixtureRequest) -> Iterator[tuple[str, PrivateServer | None]]:
    kind = str(request.param)
    if kind == "memory":
        yield kind, None
        return
    with PrivateServer.start(binary=servers.binaries()[kind], extra_args=servers.TEST_OPTIONS) as server:
        yield kind, server


@pytest.fixture
async def place(
    contract_server: tuple[str, PrivateServer | None], request: pytest.FixtureRequest
) -> AsyncIterator[Place]:
    """An empty place; afterwards it holds only what the key table allows."""
    kind, server = contract_server
    if server is None:
        memory = MemoryPlace()
        yield memory
        await memory.close()
        return
    real = RedisPlace(kind, server.url)
    await real.forget_all()
    yield real
    faults = hygiene.look_over(server.url, request.node)
    await real.close()
    assert not faults, "\n".join(faults)


@pytest.fixture
async def drive(place: Place) -> Drive:
    """A backend on the place, and the moves that most tests are made of."""
    return await Drive.start(place)
