"""What a conversation costs: counted wherever a receipt says a cost, asked by programs."""

from typing import Any

import pytest

from reach import Agent, Budget, Context, Conversation, Reject, Result, Retry, SyncReach
from reach.envelope.registration import Capability
from reach.testing import TestReach
from tests.unit.sdk.shops import key_with


def worker(value: Any, **declared: Any) -> Agent:
    agent = Agent("helper", **declared)

    @agent.capability("helper")
    async def work() -> Any:
        if isinstance(value, Exception):
            raise value
        return value

    return agent


async def cost_of(agent: Agent, target: str = "helper", **options: Any) -> tuple[float | None, Conversation | None]:
    """What the receipt of one message says, and what its conversation has."""
    async with TestReach(agent) as bus:
        handle = await bus.send(target, **options)
        await bus.advance(3)
        receipt = await handle.receipt(0)
        return receipt.cost, await bus.reach.conversation(handle.msg_id)


async def test_a_run_that_says_its_cost_is_counted_though_nobody_has_a_budget() -> None:
    told, found = await cost_of(worker(Result("done", cost=0.25, tokens=70)), needs={"context_tokens": 50})
    assert found is not None
    assert (told, found.cost, found.tokens, found.messages, found.hops) == (0.25, 0.25, 70, 1, 0)


async def test_a_budget_stands_beside_what_is_used() -> None:
    _, found = await cost_of(worker(Result("done", cost=0.25)), budget={"hops": 3, "cost": 2.5})
    assert found is not None
    assert (found.cost, found.budget) == (0.25, Budget(hops=3, cost=2.5))


async def test_a_run_that_says_nothing_costs_what_is_declared() -> None:
    told, found = await cost_of(worker("done", cost=0.5))
    assert found is not None
    assert told == found.cost == 0.5
    told, found = await cost_of(worker(Result("done", cost=0.0), cost=0.5))
    assert (told, found) == (0.0, None), "it says that it cost nothing"


async def test_a_capability_may_cost_something_else_than_its_agent() -> None:
    agent = Agent("helper", cost=0.5)
    agent.capability("dear", cost=3.0)(lambda: "done")
    agent.capability("free", cost=0)(lambda: "done")
    agent.capability("usual")(lambda: "done")
    assert [(await cost_of(agent, name))[0] for name in ("dear", "free", "usual")] == [3.0, 0.0, 0.5]
    agent = Agent("helper", cost=0.5, capabilities=[Capability(name="declared", cost=2.0)])
    agent.on("request")(lambda: "done")
    assert (await cost_of(agent, "declared"))[0] == 2.0


async def test_a_capability_that_is_added_says_its_cost_as_well() -> None:
    agent = worker("done", cost=0.5)
    async with TestReach(agent) as bus:
        assert await agent.add_capability("late", lambda: "done", cost=4)
        assert (await bus.request("late")).cost == 4.0


@pytest.mark.parametrize(
    ("problem", "cost", "tokens"),
    [
        (Reject("no", "I have looked", cost=0.3, tokens=9), 0.3, 9),
        (Retry("later", cost=0.2, tokens=4), 0.4, 8),
    ],
)
async def test_a_run_that_fails_costs_what_it_says(problem: Exception, cost: float, tokens: int) -> None:
    told, found = await cost_of(worker(problem, cost=7), max_attempts=2)
    assert found is not None
    assert (found.cost, found.tokens, found.messages) == (cost, tokens, 1)
    assert told == getattr(problem, "cost", None)


@pytest.mark.parametrize("problem", [Reject("no"), ValueError("broken"), Retry("later")])
async def test_a_run_that_fails_and_says_nothing_costs_nothing(problem: Exception) -> None:
    assert await cost_of(worker(problem, cost=7), max_attempts=2) == (None, None)


@pytest.mark.parametrize("what", [Reject, Retry])
@pytest.mark.parametrize("used", [{"cost": float("nan")}, {"cost": "much"}, {"tokens": -1}])
def test_what_is_no_cost_is_no_cost_of_a_failure_either(what: Any, used: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError)):
        what("no", **used)


@pytest.mark.parametrize("cost", [-1, float("nan"), "much"])
def test_what_is_no_cost_is_none_of_a_capability(cost: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        Agent("helper").capability("helper", cost=cost)(lambda: None)


async def test_the_cost_of_children_is_that_of_their_conversation() -> None:
    boss = Agent("boss", cost=1.0)

    @boss.capability("boss")
    async def ask(ctx: Context) -> Any:
        return [await ctx.ask("helper") for _ in range(3)]

    async with TestReach(boss, worker("done", cost=0.5)) as bus:
        handle = await bus.send("boss", correlation_id="talk")
        await bus.advance(3)
        assert (await handle.receipt(0)).ok
        assert await bus.reach.conversation("talk") == Conversation(
            correlation_id="talk", cost=2.5, tokens=0, messages=4, hops=3
        )


async def test_what_costs_nothing_asks_nothing() -> None:
    agent = worker("done")
    async with TestReach(agent) as bus:
        assert (await bus.request("helper")).ok
        assert "spend" not in bus.backend_of(agent).calls
        assert not key_with(bus, "}:conv:")
        assert await bus.reach.conversation(bus.sent[-1].msg_id) is None


def test_programs_without_an_event_loop_ask_as_well() -> None:
    with SyncReach.embedded(worker("done", cost=0.5)) as reach:
        receipt = reach.request("helper", correlation_id="talk")
        assert receipt.ok
        found = reach.conversation("talk")
        assert found is not None
        assert (found.cost, found.messages) == (0.5, 1)
