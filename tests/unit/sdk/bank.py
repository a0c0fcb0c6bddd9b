"""A bank, where an effect cannot be taken back, and an agent that books there."""

import asyncio
from typing import Any

import msgspec

from reach import Agent, Context


class Booking(msgspec.Struct):
    number: int


class Bank:
    """What is outside, where an effect cannot be taken back."""

    def __init__(self) -> None:
        self.booked: list[str] = []
        self.open = asyncio.Event()
        self.open.set()

    async def book(self, key: str) -> Booking:
        self.booked.append(key)
        await self.open.wait()
        return Booking(len(self.booked))


def clerk(bank: Bank, seen: list[Any], problems: list[BaseException] | None = None, **options: Any) -> Agent:
    """Books once, and then may fail."""
    agent = Agent("clerk-{instance}", **options)

    @agent.capability("refund")
    async def refund(ctx: Context) -> int:
        booking = await ctx.once("book", bank.book, ctx.key)
        seen.append(booking)
        if problems:
            raise problems.pop()
        return int(booking.number)

    return agent
