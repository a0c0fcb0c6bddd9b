"""An agent that pays refunds, and asks somebody before it pays a large one."""

from typing import Any

import msgspec

from reach import Agent, Context
from reach.testing import TestReach

HOURS = 3_600


class Approval(msgspec.Struct):
    ok: bool
    by: str = ""


class Desk:
    """What it did: how often a handler was called, what it saw, what it paid."""

    def __init__(self) -> None:
        self.calls: list[int] = []
        self.seen: list[Any] = []
        self.paid: list[int] = []

    def pay(self, amount: int) -> int:
        self.paid.append(amount)
        return len(self.paid)


def refunds(desk: Desk, problems: list[Exception] | None = None, **options: Any) -> Agent:
    """Asks above 100, tells what it saw, and then may fail."""
    agent = Agent("refunds-{instance}", **options)

    @agent.capability("refund")
    async def refund(amount: int, ctx: Context) -> str:
        desk.calls.append(ctx.attempt)
        if amount > 100:
            approval = await ctx.input_required({"refund": amount}, returns=Approval)
            desk.seen.append(approval)
            if not approval.ok:
                return "refused"
        if problems:
            raise problems.pop()
        return "paid"

    return agent


def agent_with(function: Any, **options: Any) -> Agent:
    agent = Agent("asker-{instance}", **options)
    agent.capability("ask")(function)
    return agent


async def hours_later(bus: TestReach) -> None:
    """Two hours in which nobody does anything, and the time that it takes everybody to come back."""
    await bus.settle()
    bus.clock.advance(2 * HOURS * 1_000)
    await bus.advance(30)
