"""What happens: a slow bank, an impatient customer, and a clerk who dies at the worst moment."""

from dataclasses import dataclass, field
from typing import Any

from reach import Agent, Context, Receipt
from reach.testing import TestReach

BANK_TAKES_S = 15


@dataclass
class Story:
    """What was seen: by the bank, and in which order by everybody."""

    booked: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    receipt: Receipt[Any] = field(init=False)


class Bank:
    """Where money moves, and cannot be told to forget it. It knows nothing of reach."""

    def __init__(self, bus: list[TestReach], story: Story) -> None:
        self._bus = bus
        self._story = story

    async def transfer(self, order_id: str) -> str:
        await self._bus[0].clock.sleep(BANK_TAKES_S * 1000)
        self._story.booked.append(order_id)
        self._story.lines.append(f"{_now(self._bus)}  the bank: transfer {len(self._story.booked)} for {order_id}")
        return f"T-{len(self._story.booked)}"


def clerk(bank: Bank, bus: list[TestReach], story: Story, *, guarded: bool) -> Agent:
    """An agent that pays back. max_process: its work may take so long without a word of it."""
    agent = Agent("clerk-{instance}", max_process=20)

    @agent.capability("refund")
    async def refund(body: dict[str, str], ctx: Context) -> str:
        story.lines.append(f"{_now(bus)}  run {ctx.attempt} of {ctx.key} begins")
        order_id = body["order_id"]
        if guarded:
            transfer = await ctx.once("transfer", bank.transfer, order_id)
        else:
            transfer = await bank.transfer(order_id)
        return str(transfer)

    return agent


async def happen(*, guarded: bool) -> Story:
    """Have the accident."""
    story, buses = Story(), list[TestReach]()
    bank = Bank(buses, story)
    first, second = (clerk(bank, buses, story, guarded=guarded) for _ in range(2))
    async with TestReach(first, agent_id="shop") as bus:
        buses.append(bus)
        # The first clerk has the bank's answer, and cannot say so any more.
        bus.backend_of(first).fail("settle", times=1_000)
        asked = await bus.send("refund", {"order_id": "ORD-1"}, key="refund ORD-1", timeout=90)
        await bus.advance(5)
        story.lines.append(f"{_now(buses)}  the customer asks again, with the same key")
        again = await bus.send("refund", {"order_id": "ORD-1"}, key="refund ORD-1", timeout=85)
        await bus.advance(11)
        await bus.kill(first)
        story.lines.append(f"{_now(buses)}  the first clerk is dead; nobody has heard of a transfer")
        await bus.start(second)
        await bus.advance(60)
        story.receipt = await asked.receipt(0)
        story.lines.append(f"{_now(buses)}  the customer is told {story.receipt.output}")
        assert (await again.receipt(0)).output == story.receipt.output, "both were told the same"
    return story


def _now(bus: list[TestReach]) -> str:
    return f"{bus[0].clock.monotonic_ms() / 1000:5.1f} s"
