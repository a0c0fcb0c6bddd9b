"""CONSUMER-LEAK: what processes leave behind in consumer groups when they die goes, and never with what they held."""

import pytest

from reach.backend.keys import GROUP_AGENT, GROUP_REGISTRARS, GROUP_ROUTERS, LANES
from reach.registry import sweeper
from tests.contract.places import KEYS
from tests.faults.crash_world import CrashWorld

DEATHS = 12
AGENT_GROUPS = {KEYS.inbox(0, "a1", lane): GROUP_AGENT for lane in LANES}
ROUTER_GROUPS = dict.fromkeys(KEYS.work(0), GROUP_ROUTERS) | {KEYS.control(): GROUP_REGISTRARS}
#: real time, since the server alone knows when a consumer was last seen; everybody who lives is seen many times in it
IDLE_MS = 300


async def most_consumers(world: CrashWorld, groups: dict[str, str]) -> int:
    """In the group that has most."""
    return max([len(await world.place.consumers(stream, group)) for stream, group in groups.items()])


@pytest.mark.parametrize(("who", "groups"), [("a1", AGENT_GROUPS), ("router", ROUTER_GROUPS)])
async def test_B036_who_died_again_and_again_has_left_no_consumers(
    world: CrashWorld, monkeypatch: pytest.MonkeyPatch, who: str, groups: dict[str, str]
) -> None:
    await world.router()
    await world.agent("a1")
    await world.client()
    for number in range(DEATHS):
        call = world.ask({"do": "ok"})
        await world.until(lambda call=call: call.over, "an answer")  # type: ignore[misc]
        assert call.codes == ["ok"], number
        world.processes[who].die()
    assert await most_consumers(world, groups) >= DEATHS - 1
    monkeypatch.setattr(sweeper, "IDLE_MS", IDLE_MS)

    async def swept() -> bool:
        return await most_consumers(world, groups) <= 2

    await world.until(swept, "the end of the consumers", 600_000)
