"""While routers are down, senders are told so before Redis is full."""

import pytest
import redis.asyncio

from reach import Overloaded, Reach, Status
from reach.backend.keys import KeySpace
from reach.ids import DEFAULT_ENV
from tests.integration.sdk.world import router
from tests.servers import StartServer

KEYS = KeySpace(DEFAULT_ENV)


@pytest.mark.leaves_work(why="what was let in waits for a router")
async def test_without_routers_a_full_door_is_overloaded_and_nothing_was_accepted(start_server: StartServer) -> None:
    server = start_server()
    async with redis.asyncio.Redis.from_url(server.url) as raw:
        await raw.hset(KEYS.meta(), "max_ingress", "2")
        async with Reach.connect(server.url) as reach:
            for _ in range(2):
                await reach.send("capability:refund", 1)
            receipt = await reach.request("capability:refund", 1, timeout=30)
            assert (receipt.status, receipt.code, receipt.retry_after_ms) == (Status.RETRYABLE, "overloaded", 1_000)
            assert (receipt.details["accepted"], receipt.details["cause"]) == (False, "backend.ingress_full")
            with pytest.raises(Overloaded) as told:
                await reach.send("capability:refund", 1)
            assert (told.value.code, told.value.retry_after_ms) == ("overloaded", 1_000)
            assert await raw.xlen(KEYS.ingress(0, "normal")) == 2
            assert (await reach.request("capability:refund", 1, timeout=0.05, priority=9)).code == "timeout.total"


async def test_it_goes_on_as_soon_as_a_router_is_there(start_server: StartServer) -> None:
    server = start_server()
    async with redis.asyncio.Redis.from_url(server.url) as raw:
        await raw.hset(KEYS.meta(), "max_ingress", "1")
    async with Reach.connect(server.url) as reach:
        handle = await reach.send("nobody", 1, timeout=1)
        assert (await reach.request("nobody", 1, timeout=1)).code == "overloaded"
        async with router(server.url):
            assert (await handle.receipt()).code == "timeout.total", "accepted means ended"
            assert (await reach.request("nobody", 1, timeout=0.2)).code == "timeout.total", "there is room"
