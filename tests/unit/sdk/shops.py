"""An agent that the tests of the client talk to, and ways to get at the parts of their bus."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from reach import Agent, Context, Reject
from reach.sdk.runtime import AgentRun
from reach.testing import FaultyBackend, TestReach


class Order(msgspec.Struct):
    order_id: str


class Refund(msgspec.Struct):
    refunded: str


def shop(name: str = "shop-{instance}", runs: list[str] | None = None) -> Agent:
    agent = Agent(name, groups=("shops",))

    @agent.capability("refund")
    async def refund(order: Order, ctx: Context) -> Refund:
        if runs is not None:
            runs.append(ctx.msg_id)
        if order.order_id == "none":
            raise Reject("no_such_order", "there is none")
        if order.order_id == "slow":
            await asyncio.Event().wait()
        return Refund(order.order_id)

    @agent.capability("tell")
    async def tell(body: Any, ctx: Context) -> str:
        for step in range(3):
            await ctx.progress({"step": step})
        await ctx.alive()
        return "told"

    @agent.on("market.news")
    async def news(body: dict[str, Any]) -> None:
        return None

    return agent


def key_with(bus: TestReach, part: str) -> str:
    keys = bus.store.keys()
    return next((key for key in keys if part in key), "")


def client_of(bus: TestReach) -> FaultyBackend:
    return bus.client_backend


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


def agent_with(handler: Callable[..., Any], **options: Any) -> Agent:
    agent = Agent("one", **options)
    agent.capability("work")(handler)
    return agent


async def ended(bus: TestReach, seconds: float = 40, **options: Any) -> Any:
    handle = await bus.send("work", **options)
    await bus.advance(seconds)
    return await handle.receipt(0)


def run_of(agent: Agent) -> AgentRun:
    return agent.instances[-1]


async def beat_of(bus: TestReach, agent: Agent) -> dict[str, Any]:
    _, beats = await bus.reach.backend.last_beats(0)
    instance_id = run_of(agent).registration.instance_id
    beat = next(last.beat for last in beats if last.instance_id == instance_id)
    found: dict[str, Any] = msgspec.json.decode(beat)
    return found
