"""What lies in the inboxes of agents that have just died, and still count as alive for 15 s, goes on to one that lives."""

import pytest

from reach import Agent
from reach.testing import TestReach


def workers(count: int) -> list[Agent]:
    made = [Agent(f"worker{number}") for number in range(count)]
    for agent in made:

        @agent.capability("work")
        async def work(body: int) -> int:
            return body

    return made


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("count", "killed", "within_s"), [(3, 2, 8), (5, 3, 20)])
async def test_everything_is_answered_by_the_living(count: int, killed: int, within_s: int, seed: int) -> None:
    """Two dead: at most one move to the other one. Three: two moves may be used up on them, the third is free after 15 s."""
    agents = workers(count)
    async with TestReach(*agents, seed=seed) as bus:
        for agent in agents[:killed]:
            await bus.kill(agent)
        sent = [await bus.send("work", number, timeout=within_s + 2) for number in range(20)]
        await bus.advance(within_s)
        assert {receipt.output for receipt in bus.receipts} == set(range(len(sent)))
        assert len(bus.receipts) == len(sent)
        assert {receipt.attempts for receipt in bus.receipts} == {1}
