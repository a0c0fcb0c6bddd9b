"""What happens: a slow bank, an impatient customer, and a clerk who answers late, or dies at the worst moment."""

import asyncio
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from reach import Agent, Context, Receipt
from reach.testing import TestReach, wait_until

Accident = Literal["the clerk answers late", "the clerk dies"]
ACCIDENTS: tuple[Accident, ...] = ("the clerk answers late", "the clerk dies")

#: the bank has a slow moment
FIRST_TAKES_S, NEXT_TAKES_S = 15, 5
#: how long a clerk may work without a word of it
PATIENCE_S: dict[Accident, float] = {"the clerk answers late": 10, "the clerk dies": 20}
#: what of the history says why there were two runs
TELLING = ("agent.received", "agent.completed", "message.retried", "message.reclaimed")


@dataclass
class Story:
    """What was seen: by the bank, and in which order by everybody; `history` is what reach has written down about the message."""

    booked: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    history: list[str] = field(default_factory=list)
    receipt: Receipt[Any] = field(init=False)


class Bank:
    """Where money moves, and cannot be told to forget it. It knows nothing of reach, nor whether whoever has asked still listens."""

    def __init__(self, bus: list[TestReach], story: Story) -> None:
        self._bus = bus
        self._story = story
        self._asked = 0

    async def transfer(self, order_id: str) -> str:
        done = asyncio.Event()
        number: list[int] = []

        def book() -> None:
            self._story.booked.append(order_id)
            number.append(len(self._story.booked))
            self._story.lines.append(f"{_now(self._bus)}  the bank: transfer {number[0]} for {order_id}")
            done.set()

        self._asked += 1
        self._bus[0].clock.call_later((FIRST_TAKES_S if self._asked == 1 else NEXT_TAKES_S) * 1000, book)
        await done.wait()
        return f"T-{number[0]}"


def clerk(bank: Bank, bus: list[TestReach], story: Story, patience_s: float, *, guarded: bool) -> Agent:
    """An agent that pays back."""
    agent = Agent("clerk-{instance}", max_process=patience_s)

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


async def happen(accident: Accident, *, guarded: bool) -> Story:
    """Have the accident."""
    story, buses = Story(), list[TestReach]()
    bank = Bank(buses, story)
    first, second = (clerk(bank, buses, story, PATIENCE_S[accident], guarded=guarded) for _ in range(2))
    async with TestReach(first, agent_id="shop") as bus:
        buses.append(bus)
        dies = accident == "the clerk dies"
        if dies:  # he has the bank's answer, and cannot say so any more
            bus.backend_of(first).fail("settle", times=1_000)
        asked = await bus.send("refund", {"order_id": "ORD-1"}, key="refund ORD-1", timeout=90)
        await bus.advance(5)
        story.lines.append(f"{_now(buses)}  the customer asks again, with the same key")
        again = await bus.send("refund", {"order_id": "ORD-1"}, key="refund ORD-1", timeout=85)
        if not dies:
            await bus.start(second)
        await bus.advance(11)
        if dies:
            await bus.kill(first)
            story.lines.append(f"{_now(buses)}  the first clerk is dead; nobody has heard of a transfer")
            await bus.start(second)
        await bus.advance(60)
        story.receipt = await asked.receipt(0)
        story.lines.append(f"{_now(buses)}  the customer is told {story.receipt.output}")
        assert (await again.receipt(0)).output == story.receipt.output, "both were told the same"
        # What happened is written down behind the work, and by real time.
        await wait_until(lambda: _is_told(bus, story), what="the records of both runs")
    return story


async def _is_told(bus: TestReach, story: Story) -> bool:
    story.history = await _history(bus, story.receipt.msg_id)
    ended = f"agent.completed {story.receipt.target_agent} {story.receipt.code}" in story.history
    return ended and any(line.startswith("message.retried") for line in story.history)


async def _history(bus: TestReach, msg_id: str) -> list[str]:
    """What `reach events MSG_ID` would print, of what matters here."""
    batches = [msgspec.json.decode(batch) for _, batch in await bus.reach.backend.read_events(0, "0", 0)]
    records = [record for batch in batches for record in batch if record["msg_id"] == msg_id]
    told = sorted((record for record in records if record["point"] in TELLING), key=lambda record: record["at_us"])
    return [" ".join(str(record.get(name, "")) for name in ("point", "agent", "code")).rstrip() for record in told]


def _now(bus: list[TestReach]) -> str:
    return f"{bus[0].clock.monotonic_ms() / 1000:5.1f} s"
