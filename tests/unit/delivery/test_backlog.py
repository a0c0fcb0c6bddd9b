"""A backlog does not bounce: only as much of it moves as another agent can begin, and nothing between two that are busy."""

import asyncio

from reach import Agent, Context
from reach.testing import TestReach

QUEUED = 200
SLOTS = 4


class Works:
    """Two agents of one capability; what they run ends when it is let go, or after `takes_s`."""

    def __init__(self, takes_s: float | None) -> None:
        self.ran: list[str] = []
        self.most = 0
        self._takes_s = takes_s
        self._never = asyncio.Event()

    def agent(self, name: str, bus: TestReach) -> Agent:
        agent = Agent(name, concurrency=SLOTS)

        @agent.capability("work", max_process=3_600)
        async def work(ctx: Context) -> None:
            self.ran.append(name)
            if self._takes_s is None:
                await self._never.wait()
            else:
                await bus.clock.sleep(round(self._takes_s * 1000))

        return agent


def queued_at(bus: TestReach, name: str) -> int:
    inbox = bus.store.stream(f"reach:{{dev.0}}:inbox:{name}:normal")
    return len(inbox) if inbox is not None else 0


async def fill(bus: TestReach) -> None:
    for number in range(QUEUED):
        await bus.send("work", number, timeout=3_000, ttl=3_000)


async def test_of_a_backlog_only_as_much_moves_as_an_idle_agent_can_begin() -> None:
    works = Works(None)
    async with TestReach() as bus:
        await bus.start(works.agent("busy", bus))
        await fill(bus)
        await bus.advance(1)
        assert queued_at(bus, "busy") == QUEUED
        await bus.start(works.agent("idle", bus))
        for _ in range(60):
            await bus.advance(1)
            assert queued_at(bus, "idle") <= SLOTS
        assert works.ran.count("idle") == SLOTS
        assert queued_at(bus, "busy") == QUEUED - SLOTS


async def test_a_backlog_at_one_is_worked_off_by_both() -> None:
    works = Works(2)
    async with TestReach() as bus:
        await bus.start(works.agent("first", bus))
        await fill(bus)
        await bus.advance(1)
        await bus.start(works.agent("second", bus))
        for _ in range(100):
            await bus.advance(1)
            assert queued_at(bus, "second") <= 2 * SLOTS
        assert len(bus.receipts) == len(works.ran) == QUEUED
        assert works.ran.count("second") >= QUEUED // 10
        assert {receipt.attempts for receipt in bus.receipts} == {1}


async def test_between_two_busy_agents_nothing_moves() -> None:
    works = Works(None)
    async with TestReach() as bus:
        for name in ("a", "b"):
            await bus.start(works.agent(name, bus))
        await fill(bus)
        await bus.advance(1)
        before = {name: queued_at(bus, name) for name in ("a", "b")}
        assert sum(before.values()) == QUEUED
        assert len(works.ran) == 2 * SLOTS
        await bus.advance(120)
        assert {name: queued_at(bus, name) for name in ("a", "b")} == before
        assert len(works.ran) == 2 * SLOTS
        assert bus.receipts == []
