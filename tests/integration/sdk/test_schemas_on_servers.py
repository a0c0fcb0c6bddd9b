"""Schemas on real servers: two routers hear of a new version at once, and a message of an older one finds its reader."""

from typing import Any

import msgspec

from reach import Agent, Reach
from tests.integration.sdk.world import router

V1, V2 = "weather.query.v1", "weather.query.v2"


class Query(msgspec.Struct):
    city: str


class Wider(msgspec.Struct):
    city: str
    units: str = "C"


async def test_a_message_of_an_older_schema_finds_a_newer_reader_through_either_router(redis_url: str) -> None:
    agent = Agent("newer", validate=True)

    @agent.capability("weather", schema=V2)
    async def weather(body: Wider) -> Any:
        return [body.city, body.units]

    async with router(redis_url, "w1"), router(redis_url, "w2"), agent.running(redis_url, grace=0):
        async with Reach.connect(redis_url, validate=True) as reach:
            refused = await reach.request("weather", {"city": "Oslo"}, schema=V1)
            assert refused.code == "schema.unknown"
            await reach.schemas.set(V1, msgspec.json.schema(Query))
            for _ in range(6):  # whichever router takes it
                assert await reach.ask("weather", {"city": "Oslo"}, schema=V1, validate=False) == ["Oslo", "C"]
            told = await reach.accepts("weather")
            assert [(one.agent_id, one.reads) for one in told.agents] == [("newer", {V1: [V2]})]
            assert sorted(told.schemas) == [V1, V2]
            wrong = await reach.request("weather", {"units": 1}, schema=V2, validate=False)
            assert (wrong.code, [one["at"] for one in wrong.details["problems"]]) == ("payload.invalid", ["", "/units"])
            wrong = await reach.request("weather", {"units": 1}, schema=V2)
            assert (wrong.code, wrong.target_agent) == ("payload.invalid", None)
            await reach.schemas.set_compatibility("weather.query", "none")
            handle = await reach.send("weather", {"city": "Oslo"}, schema=V1, validate=False, timeout=0.5)
            assert (await handle.receipt(3)).code in ("route.no_candidate", "timeout.total")
