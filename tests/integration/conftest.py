"""Whole routers on every place: redis, valkey, memory."""

from collections.abc import AsyncIterator

import pytest

from tests.contract.conftest import contract_server, place
from tests.contract.places import Place
from tests.integration.spine import Spine

__all__ = ["contract_server", "place"]


@pytest.fixture
async def spine(place: Place) -> AsyncIterator[Spine]:
    """A running router on an empty place."""
    async with Spine(place, await place.connect()) as running:
        yield running
