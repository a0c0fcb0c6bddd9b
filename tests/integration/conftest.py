"""Whole routers on every place: redis, valkey, memory."""

from collections.abc import AsyncIterator

import pytest

from reach.backend import open_backend
from reach.backend.port import Backend
from reach.backend.private_server import PrivateServer
from tests.contract.conftest import contract_server, place
from tests.contract.places import Place
from tests.integration.spine import Connect, Spine

__all__ = ["contract_server", "place"]


@pytest.fixture
async def connect(server: PrivateServer) -> AsyncIterator[Connect]:
    """Opens backends of a server; the bounds of `meta` are read then."""
    made: list[Backend] = []

    async def connected() -> Backend:
        made.append(open_backend(server.url))
        await made[-1].open()
        return made[-1]

    yield connected
    for each in made:
        await each.close()


@pytest.fixture
async def backend(connect: Connect) -> Backend:
    """One of them."""
    return await connect()


@pytest.fixture
async def spine(place: Place) -> AsyncIterator[Spine]:
    """A running router on an empty place."""
    async with Spine(place, await place.connect()) as running:
        yield running
