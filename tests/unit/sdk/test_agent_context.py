"""What a handler sends continues the conversation; what an agent declares is what its handlers are."""

from typing import Any

import msgspec
import pytest

from reach import Agent, ConfigError, Context, RegistrationRefused
from reach.envelope.registration import Capability
from reach.testing import TestReach
from tests.unit.sdk.shops import agent_with

# ---------------------------------------------------------------- context


async def test_what_a_handler_sends_continues_the_conversation() -> None:
    seen: dict[str, Any] = {}
    front, back = Agent("front-{instance}"), Agent("back")

    @front.capability("front")
    async def ask(body: dict[str, Any], ctx: Context) -> Any:
        seen["front"] = ctx
        return await ctx.ask("back", body, key="step 1", timeout=60)

    @back.capability("back")
    async def answer(body: dict[str, Any], ctx: Context) -> Any:
        seen["back"] = ctx
        return [body, ctx.correlation_id, ctx.key, ctx.source.name]

    async with TestReach(front, back) as bus:
        got = await bus.ask("front", {"x": 1}, correlation_id="conv-1", headers={"tenant": "t"}, timeout=10)
        assert got == [{"x": 1}, "conv-1", "step 1", "front"]
        first, second = bus.sent
        assert second.in_reply_to == first.msg_id
        assert second.traces.previous_hops == (second.source.agent_id,)
        assert second.timeouts.total_ms is not None
        assert second.timeouts.total_ms <= 10_000  # a child does not outlive the one who asks
        assert second.traces.traceparent is not None
        context = seen["front"]
        assert (context.msg_id, context.key, context.attempt) == (first.msg_id, first.msg_id, 1)
        assert context.headers == {"tenant": "t"}
        assert context.source.agent_id == "test"
        assert context.deadline == pytest.approx(bus.clock.wall_ms() / 1000 + 10, abs=0.1)
        assert 0 < context.remaining <= 10
        assert not context.cancelled


async def test_a_trace_goes_through_every_hop() -> None:
    front, back = Agent("front"), Agent("back")

    @front.capability("front")
    async def ask(ctx: Context) -> Any:
        return await ctx.ask("back")

    @back.capability("back")
    async def answer() -> int:
        return 1

    async with TestReach(front, back) as bus:
        await bus.ask("front")
        first, second = bus.sent
        trace = first.msg_id.replace("-", "")  # nobody traced before: the message's own
        assert first.traces.traceparent is None
        assert (second.traces.traceparent or "").split("-")[1] == trace


async def test_a_loop_is_found_by_its_path() -> None:
    agent = Agent("one")

    @agent.capability("again")
    async def again(ctx: Context) -> Any:
        return (await ctx.request("again")).code

    async with TestReach(agent) as bus:
        handle = await bus.send("again")
        await bus.advance(5)
        assert (await handle.receipt(0)).output == "loop.detected"


async def test_a_rerun_makes_the_same_child() -> None:
    front, back = Agent("front-{instance}"), Agent("back")
    effects: list[str] = []

    @front.capability("front")
    async def ask(ctx: Context) -> Any:
        child = await ctx.request("back", key=f"{ctx.key}/child")
        if ctx.attempt == 1:
            raise ValueError("after the child")
        return child.stored

    @back.capability("back")
    async def answer(ctx: Context) -> int:
        effects.append(ctx.msg_id)
        return 1

    async with TestReach(front, back) as bus:
        handle = await bus.send("front", key="order")
        await bus.advance(3)
        assert (await handle.receipt(0)).output is True
        assert len(effects) == 1


async def test_a_log_line_says_which_message_it_is_about(caplog: pytest.LogCaptureFixture) -> None:
    async def work(ctx: Context) -> None:
        ctx.log.warning("hello")

    async with TestReach(agent_with(work)) as bus:
        receipt = await bus.request("work", correlation_id="conv")
        line = next(record for record in caplog.records if record.message == "hello")
        assert (line.__dict__["msg_id"], line.__dict__["correlation_id"]) == (receipt.msg_id, "conv")


# ---------------------------------------------------------------- declaring


def test_an_agent_that_cannot_be_is_told_with_every_problem() -> None:
    with pytest.raises(ConfigError) as caught:
        Agent("one", concurrency=0, weight=-1, groups=("a b",))
    assert caught.value.details["problems"] == ["groups[0]", "concurrency", "weight"]
    for wrong in ("", "a b", "{instance}}", "-x"):
        with pytest.raises(ConfigError):
            Agent(wrong)


async def test_what_is_declared_is_what_the_handlers_are() -> None:
    agent = Agent(
        "one", capabilities=("extra", Capability(name="more", cost=1.0)), description="does it", groups=("g",)
    )

    @agent.capability("refund", schema="refund.v1", description="pays back", examples=({"x": 1},), max_process=60)
    async def one() -> None: ...

    @agent.capability("refund", schema="refund.v2")
    async def two() -> None: ...

    @agent.on("market.news")
    async def news() -> None: ...

    async with TestReach(agent) as bus:
        stored, _ = await bus.reach.backend.registration("one")
        assert stored is not None
        said = msgspec.json.decode(stored)
        assert [(c["name"], c.get("input_schema")) for c in said["capabilities"]] == [
            ("extra", None),
            ("more", None),
            ("refund", "refund.v1"),
            ("refund", "refund.v2"),
        ]
        refund = said["capabilities"][2]
        assert (refund["description"], refund["examples"], refund["max_process_ms"]) == (
            "pays back",
            [{"x": 1}],
            60_000,
        )
        assert said["capabilities"][3]["description"] == "does it"
        assert said["accepts"] == [{"type": "market.news"}, {"type": "request", "schemas": ["refund.v1", "refund.v2"]}]


async def test_another_declaration_of_the_same_agent_is_refused() -> None:
    async def work() -> None: ...

    one, other = agent_with(work), Agent("one")
    async with TestReach(one) as bus:
        with pytest.raises(RegistrationRefused) as caught:
            await bus.start(other)
        assert caught.value.code == "registration.conflict"
        await bus.start(agent_with(work))  # the same one joins as one more instance
        _, beats = await bus.reach.backend.registration("one")
        assert len(beats) == 2


async def test_a_capability_is_added_while_it_runs() -> None:
    async def work() -> str:
        return "work"

    async def more() -> str:
        return "more"

    agent = agent_with(work)
    async with TestReach(agent) as bus:
        await agent.add_capability("more", more)
        await bus.settle()
        assert await bus.ask("capability:more") == "more"
        await bus.start(agent)  # another instance declares the same
        assert await bus.ask("capability:work") == "work"
    with pytest.raises(ValueError, match="two handlers"):
        await agent.add_capability("more", more)
