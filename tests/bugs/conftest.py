"""The places that these tests run on: real servers, and where it costs nothing the memory backend as well."""

from collections.abc import AsyncIterator

import pytest

from reach.backend.private_server import PrivateServer
from tests.contract.conftest import contract_server, drive, place
from tests.faults.crash_world import CrashWorld
from tests.faults.stages import RedisStage
from tests.integration.conftest import spine

__all__ = ["contract_server", "drive", "place", "spine"]


@pytest.fixture
async def world(server: PrivateServer) -> AsyncIterator[CrashWorld]:
    """Routers, agents and clients on a real server, whose time passes only when the test says so."""
    async with CrashWorld(stage=RedisStage(server.url)) as made:
        yield made
