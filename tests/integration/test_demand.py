"""How many instances a capability wants, reckoned from what two routers have seen."""

import json
from typing import Any

from reach.registry.capacity import read_capacity
from tests.contract.places import KEYS
from tests.integration.spine import Spine, envelope, until
from tests.integration.test_capacity import beats, knows


async def reckon(*spines: Spine) -> None:
    """Each router tells its counts, and one reckons."""
    for _ in range(2):  # whoever reckons may have come first
        for spine in spines:
            await next(service for service in spine.services if service.name == "demand").run_once()


async def test_it_is_asked_of_all_routers_and_told_as_an_event(spine: Spine) -> None:
    async with Spine(spine.place, await spine.place.connect(), "w2") as other:
        await knows(spine, "work-1")
        await knows(other)
        await beats(spine, "work-1", state="busy", inflight=1, load=100.0, avg_response_ms=70_000.0)
        sent = [envelope(target={"pattern": "capability:work"}) for _ in range(12)]
        for made in sent:
            await spine.send(made)

        async def lie() -> bool:
            return len(await spine.place.entries(KEYS.inbox(0, "work-1", "normal"))) == len(sent)

        await until(lie, "what lies in the inbox")
        await spine.send(envelope(target={"pattern": "capability:rare"}))

        async def told() -> bool:
            await reckon(spine, other)
            found = {one.capability: one for one in (await read_capacity(spine.backend))[0]}
            return "rare" in found and found["rare"].waiting > 0 and found.get("work", found["rare"]).backlog == 11

        await until(told, "what is asked of both", 15.0)
        found = {one.capability: one for one in (await read_capacity(other.backend))[0]}
        work, rare = found["work"], found["rare"]
        assert (work.agents, work.instances, work.slots, work.inflight, work.backlog) == (1, 1, 1, 1.0, 11)
        assert 0 < work.arrivals_per_s <= 12 / 5
        assert work.wanted > 20  # one takes 70 s, and there is more than one for each 10 s
        assert (rare.agents, rare.backlog, rare.wanted) == (0, 0, 1)

        async def events() -> list[dict[str, Any]]:
            entries = await spine.place.entries(KEYS.events(0))
            records = [one for _, fields in entries for one in json.loads(fields[b"b"])]
            return [one for one in records if one["point"] == "capacity.wanted" and one["pattern"] == "capability:rare"]

        (event,) = await until(events, "the event")
        assert event["counts"] == {"wanted": 1, "was": 0, "instances": 0}
        for made in sent:  # nobody is to read them
            await spine.backend.cancel(0, str(made["msg_id"]), "tester", 1, 0)
