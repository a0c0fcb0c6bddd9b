"""An agent that stands in for others knows by what it has come: the fallback of the policy says which handler is meant."""

from reach import Agent
from reach.testing import TestReach


def desk(agent_id: str, *capabilities: str) -> Agent:
    agent = Agent(agent_id)
    for name in capabilities:

        async def told(body: dict[str, object], *, name: str = name) -> str:
            return name

        agent.capability(name)(told)
    return agent


async def test_the_handler_that_the_fallback_names_is_run() -> None:
    async with TestReach(desk("cheap", "answer", "translate")) as bus:
        await bus.reach.routes.set("capability:expert", b'{"fallback":"capability:answer"}')
        assert (await bus.request("capability:expert", {})).output == "answer"


async def test_also_behind_another_fallback() -> None:
    async with TestReach(desk("cheap", "answer", "translate")) as bus:
        await bus.reach.routes.set("capability:expert", {"fallback": "capability:good"})
        await bus.reach.routes.set("capability:good", b'{"fallback":"capability:translate"}')
        assert (await bus.request("capability:expert", {})).output == "translate"


async def test_a_fallback_that_names_no_capability_needs_one_handler() -> None:
    async with TestReach(desk("cheap", "answer")) as bus:
        await bus.reach.routes.set("capability:expert", b'{"fallback":"agent_id:cheap"}')
        assert (await bus.request("capability:expert", {})).output == "answer"
    async with TestReach(desk("cheap", "answer", "translate")) as bus:
        await bus.reach.routes.set("capability:expert", b'{"fallback":"agent_id:cheap"}')
        assert (await bus.request("capability:expert", {})).code == "error.unknown_type"
