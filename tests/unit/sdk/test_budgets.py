"""What a conversation may spend, and polite agents that never come to an end."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from reach import Agent, Budget, Context, EnvelopeError, Receipt, Reject, Result, Retry
from reach.testing import TestReach
from tests.unit.sdk.shops import key_with


def worker(result: Callable[[], Any] = lambda: "done", name: str = "helper") -> Agent:
    agent = Agent(name)

    @agent.capability(name)
    async def work(body: Any) -> Any:
        return result()

    return agent


def boss(times: int, **options: Any) -> Agent:
    """Asks the helper one time after another, and gives the codes."""
    agent = Agent("boss")

    @agent.capability("boss")
    async def ask(ctx: Context) -> list[str]:
        return [(await ctx.request("helper", n, **options)).code for n in range(times)]

    return agent


async def ended(bus: TestReach, target: str = "boss", body: Any = None, **options: Any) -> Receipt[Any]:
    handle = await bus.send(target, body, **options)
    await bus.advance(3)
    return await handle.receipt(0)


# ---------------------------------------------------------------- budgets


async def test_so_many_messages_after_the_first() -> None:
    async with TestReach(boss(7), worker()) as bus:
        assert (await ended(bus, budget={"hops": 5})).output == ["ok"] * 5 + ["budget.exceeded"] * 2
        last = bus.receipts[-2]
        assert (last.status, last.attempts) == ("failed", 0)
        assert last.details == {"limit": "hops", "spent": 6, "allowed": 5}
        assert (await ended(bus, budget={"hops": 7})).output == ["ok"] * 7, (
            "another conversation has a budget of its own"
        )
        assert (await ended(bus)).output == ["ok"] * 7


async def test_the_budget_is_that_of_the_conversation_and_not_of_a_message() -> None:
    async with TestReach(worker()) as bus:
        told = [(await ended(bus, "helper", n, correlation_id="c", budget=Budget(hops=2))).code for n in range(4)]
        assert told == ["ok", "ok", "ok", "budget.exceeded"]
        assert (await ended(bus, "helper", correlation_id="c")).code == "ok", "who sets no budget has none"


async def test_what_runs_cost_is_counted_until_it_is_spent() -> None:
    async with TestReach(boss(5), worker(lambda: Result("done", cost=0.4))) as bus:
        assert (await ended(bus, budget={"cost": 1.0})).output == ["ok"] * 3 + ["budget.exceeded"] * 2
        assert bus.receipts[-2].details == {"limit": "cost", "spent": 1.2, "allowed": 1.0}


async def test_tokens_are_counted_until_they_are_spent() -> None:
    async with TestReach(boss(4), worker(lambda: Result("done", tokens=300))) as bus:
        assert (await ended(bus, budget=Budget(tokens=900))).output == ["ok"] * 3 + ["budget.exceeded"]
        receipt = next(receipt for receipt in bus.receipts if receipt.ok)
        assert receipt.details == {"tokens": 300}
        assert bus.receipts[-2].details == {"limit": "tokens", "spent": 900, "allowed": 900}


async def test_what_nobody_bounds_is_counted_and_refuses_nobody() -> None:
    async with TestReach(boss(3), worker(lambda: Result("done", cost=1.0, tokens=5))) as bus:
        assert (await ended(bus)).output == ["ok"] * 3
        found = await bus.reach.conversation(bus.sent[0].msg_id)
        assert found is not None
        assert (found.cost, found.tokens, found.messages, found.budget) == (3.0, 15, 4, None)


async def test_a_plain_message_asks_nothing() -> None:
    async with TestReach(worker()) as bus:
        await ended(bus, "helper")
        assert not key_with(bus, "}:conv:")


async def test_a_handler_passes_the_budget_on_and_can_only_make_it_smaller() -> None:
    async with TestReach(boss(1, budget={"hops": 99, "cost": 0.5, "tokens": 7}), worker()) as bus:
        await ended(bus, budget=Budget(hops=5, cost=2.0))
        assert [envelope.budget for envelope in bus.sent] == [
            Budget(hops=5, cost=2.0),
            Budget(hops=5, cost=0.5, tokens=7),
        ]
    async with TestReach(boss(1), worker()) as bus:
        await ended(bus, budget=Budget(tokens=5))
        assert [envelope.budget for envelope in bus.sent] == [Budget(tokens=5)] * 2
        await ended(bus)
        assert bus.sent[-1].budget is None


async def test_a_run_is_counted_once_whatever_is_repeated() -> None:
    """The reply of the count is lost, and that of the answer: it is written again."""
    helper = worker(lambda: Result("done", cost=0.4))
    async with TestReach(boss(4), helper) as bus:
        for step in ("spend", "settle"):
            bus.backend_of(helper).lose_reply(step)
        assert (await ended(bus, budget={"cost": 1.0})).output == ["ok"] * 3 + ["budget.exceeded"]


async def test_what_a_run_has_used_is_counted_before_its_answer_is_heard() -> None:
    """Who hears it may ask for more in the same moment."""
    helper = worker(lambda: Result("done", cost=0.4))
    async with TestReach(boss(2), helper) as bus:
        await ended(bus, budget={"cost": 1.0})
        steps = [step for step in bus.backend_of(helper).calls if step in {"spend", "settle"}]
        assert steps == ["spend", "settle"] * 2


async def test_where_it_cannot_be_counted_the_answer_comes_all_the_same() -> None:
    helper = worker(lambda: Result("done", cost=0.4))
    async with TestReach(boss(4), helper) as bus:
        bus.backend_of(helper).fail("spend")
        assert (await ended(bus, budget={"cost": 1.0})).output == ["ok"] * 4, "one of them was not counted"


async def test_a_retry_is_no_new_message_and_each_run_is_paid() -> None:
    runs = []
    agent = Agent("helper")

    @agent.capability("helper")
    async def work(ctx: Context) -> Any:
        runs.append(ctx.attempt)
        if len(runs) == 1:
            raise Retry(after=1)
        if len(runs) == 2:
            raise ValueError("not yet")
        return Result("done", cost=1.0)

    async with TestReach(boss(2), agent) as bus:
        assert (await ended(bus, budget={"hops": 2, "cost": 2.0})).output == ["ok", "ok"]
        assert runs == [1, 1, 2, 1]


async def test_a_duplicate_is_counted_once() -> None:
    async with TestReach(worker()) as bus:
        assert (await ended(bus, "helper", correlation_id="c", budget={"hops": 1})).code == "ok"
        for _ in range(3):
            await bus.reach.backend.submit(0, "normal", msgspec.json.encode(bus.sent[0]))
        again = await ended(bus, "helper", 2, correlation_id="c", budget={"hops": 1})
        assert again.code == "ok"
        assert (await ended(bus, "helper", 3, correlation_id="c", budget={"hops": 1})).code == "budget.exceeded"


async def test_a_broadcast_is_one_message() -> None:
    agents = [worker(name=name) for name in ("one", "two")]
    for agent in agents:
        agent.on("event")(lambda: "heard")
    async with TestReach(boss(1), *agents, worker()) as bus:
        group = await bus.send("capability:one", type="event", scope="all", correlation_id="c", budget={"hops": 0})
        await bus.advance(1)
        assert [receipt.code for receipt in await group.receipts(0)] == ["ok"]
        over = await bus.send("capability:one", type="event", scope="all", correlation_id="c", budget={"hops": 0})
        await bus.advance(1)
        assert [receipt.code for receipt in await over.receipts(0)] == ["budget.exceeded"]


async def test_a_conversation_that_is_lost_goes_on() -> None:
    async with TestReach(worker()) as bus:
        await ended(bus, "helper", correlation_id="c", budget={"hops": 0})
        bus.store.delete("reach:{dev}:conv:c")
        assert (await ended(bus, "helper", 2, correlation_id="c", budget={"hops": 0})).code == "ok"
        bus.store.put("reach:{dev}:conv:c", b"not what it should be")
        assert (await ended(bus, "helper", 3, correlation_id="c", budget={"hops": 0})).code == "ok"
        assert (await ended(bus, "helper", 4, correlation_id="c", budget={"hops": 0})).code == "budget.exceeded"


@pytest.mark.parametrize(
    ("budget", "error"),
    [
        (5, TypeError),
        ({"hops": 1.0}, TypeError),
        ({"hops": True}, TypeError),
        ({"cost": "1"}, TypeError),
        (Budget(hops=-1), ValueError),
        ({"cost": float("nan")}, ValueError),
        ({"cost": float("inf")}, ValueError),
        ({"money": 1}, ValueError),
    ],
)
async def test_what_is_no_budget_is_told_at_once(budget: Any, error: type[Exception]) -> None:
    async with TestReach() as bus:
        with pytest.raises(error, match="budget"):
            await bus.send("helper", budget=budget)
        assert bus.sent == []


@pytest.mark.parametrize("tokens", [-1, 1.0, True, 1 << 63])
def test_tokens_are_a_count(tokens: Any) -> None:
    with pytest.raises(ValueError, match="tokens"):
        Result(None, tokens=tokens)


# ---------------------------------------------------------------- loops


def polite(name: str, other: str, words: Callable[[int], str], turns: list[str], pause: float = 0) -> Agent:
    """Thanks whoever thanks it."""
    agent = Agent(name)

    @agent.capability(name)
    async def thank(body: Any, ctx: Context) -> None:
        turns.append(name)
        try:
            await ctx.send(other, words(len(turns)), timeout=3_600, delay=pause or None)
        except EnvelopeError as error:
            turns.append(error.code)

    return agent


async def last_of(bus: TestReach) -> tuple[str, dict[str, Any]]:
    """How the last message has ended: its code and details."""
    record = await bus.reach.backend.inspect(0, bus.sent[-1].msg_id)
    assert record is not None
    receipt = msgspec.json.decode(record.receipts[0])
    return receipt["code"], receipt["details"]


async def test_two_that_thank_each_other_are_stopped() -> None:
    turns: list[str] = []
    agents = [polite(name, f"capability:{to}", lambda _: "thank you", turns) for name, to in (("a", "b"), ("b", "a"))]
    async with TestReach(*agents) as bus:
        await bus.send("a", "hello")
        await bus.advance(20)
        assert len(turns) == 17, "each has said it eight times"
        assert await last_of(bus) == ("loop.detected", {"loop": "content", "turns": 9, "allowed": 8})


async def test_two_that_never_come_to_an_end_are_stopped_whatever_they_say() -> None:
    turns: list[str] = []
    agents = [polite(name, f"capability:{to}", str, turns) for name, to in (("a", "b"), ("b", "a"))]
    async with TestReach(*agents) as bus:
        await bus.send("a", "hello")
        await bus.advance(20)
        assert len(turns) == 25, "each has had twelve turns in a minute"
        assert await last_of(bus) == ("loop.detected", {"loop": "pair", "turns": 13, "allowed": 12})


async def test_the_bounds_are_those_of_the_env() -> None:
    turns: list[str] = []
    agents = [polite(name, f"capability:{to}", lambda _: "thanks", turns) for name, to in (("a", "b"), ("b", "a"))]
    async with TestReach(*agents) as bus:
        await bus.reach.backend.set_meta("meta", "max_same_content", b"0")
        await bus.reach.backend.set_meta("meta", "max_pair_rate", b"2")
        await bus.send("a", "hello")
        await bus.advance(20)
        assert len(turns) == 5


async def test_at_a_human_pace_two_may_talk_as_long_as_a_path_may_be() -> None:
    turns: list[str] = []
    agents = [polite(name, f"capability:{to}", str, turns, 5) for name, to in (("a", "b"), ("b", "a"))]
    async with TestReach(*agents) as bus:
        await bus.send("a", "hello")
        await bus.advance(200)
        assert (len(turns), turns[-1]) == (34, "loop.too_many_hops")
        assert bus.sent[-1].traces.previous_hops == ("a", "b") * 16


async def test_honest_work_is_no_loop_however_much_it_is() -> None:
    """One asks another thirty times, and for the same thirty times, and is asked back each time."""
    back = Agent("helper")

    @back.capability("helper")
    async def ask_back(body: Any, ctx: Context) -> Any:
        return await ctx.ask("boss", "which?")

    front = Agent("boss")

    @front.capability("boss")
    async def ask(body: Any, ctx: Context) -> Any:
        if body == "which?":
            return "this"
        once = [await ctx.ask("helper", n) for n in range(30)]
        again = [await ctx.ask("helper", "the same") for _ in range(30)]
        return len(once) + len(again)

    async with TestReach(front, back) as bus:
        assert (await ended(bus, body="go")).output == 60


async def test_a_client_may_repeat_itself() -> None:
    async with TestReach(worker()) as bus:
        handles = [await bus.send("helper", "the same", correlation_id=f"{n % 2}") for n in range(100)]
        await bus.advance(1)
        assert {(await handle.receipt(0)).code for handle in handles} == {"ok"}


async def test_what_a_handler_rejects_is_paid_by_nobody() -> None:
    def refuse() -> None:
        raise Reject("no")

    async with TestReach(boss(3), worker(refuse)) as bus:
        assert (await ended(bus, budget={"cost": 0.0})).output == ["handler.rejected"] * 3
