"""Decisions through the whole path, on memory and a clock that the test moves: who waits, for how long, and what is told at the end."""

import asyncio
from typing import Any

import pytest

from reach import Agent, Receipt, Status
from reach.testing import TestReach


def worker(name: str, *, is_ready: bool = True, **declared: Any) -> Agent:
    agent = Agent(name, **declared)

    @agent.capability("work")
    async def work(body: dict[str, Any]) -> dict[str, Any]:
        if body.get("fail"):
            raise ValueError("as told")
        return {"by": name}

    @agent.ready
    async def ready() -> bool | str:
        return is_ready or "no key"

    return agent


async def asked(bus: TestReach, target: str, body: dict[str, Any], seconds: float, **options: Any) -> Receipt[Any]:
    """The receipt of a request, with so many seconds going by meanwhile."""
    request: asyncio.Future[Receipt[Any]] = asyncio.ensure_future(bus.request(target, body, **options))
    await bus.settle()
    await bus.advance(seconds)
    assert request.done(), f"no answer within {seconds} s"
    return await request


@pytest.mark.parametrize("total", [2, 30])
async def test_nobody_fits_is_told_with_its_reasons_before_total(total: int) -> None:
    async with TestReach(worker("a", is_ready=False)) as bus:
        receipt = await asked(bus, "capability:work", {}, total - 0.1, timeout=total)
    assert (receipt.status, receipt.code) == (Status.RETRYABLE, "route.no_candidate")
    assert receipt.details["reasons"] == [{"agent": "a", "filter": "ready", "reason": "not_ready: no key"}]


async def test_nobody_offers_it_is_told_after_network_ms() -> None:
    async with TestReach() as bus:
        receipt = await asked(bus, "capability:work", {}, 3.2)
    assert (receipt.status, receipt.code) == (Status.FAILED, "route.not_found")


async def test_who_appears_in_time_gets_it() -> None:
    async with TestReach() as bus:
        request = asyncio.ensure_future(bus.request("capability:work", {}))
        await bus.advance(1)
        await bus.start(worker("late"))
        await bus.advance(2)
        assert (await request).output == {"by": "late"}


async def test_attempts_run_out_into_a_dead_letter() -> None:
    async with TestReach(worker("a"), worker("b")) as bus:
        receipt = await asked(bus, "capability:work", {"fail": 1}, 4, max_attempts=3)
    assert (receipt.status, receipt.code, receipt.attempts) == (Status.RETRYABLE, "handler.error", 3)
    assert receipt.details["dead_letter"]


async def test_a_retry_goes_to_somebody_who_has_not_had_it() -> None:
    had: list[str] = []

    def failing(name: str) -> Agent:
        agent = Agent(name)

        @agent.capability("work")
        async def work(body: dict[str, Any]) -> None:
            had.append(name)
            raise ValueError("as told")

        return agent

    async with TestReach(*(failing(name) for name in ("a", "b", "c"))) as bus:
        await asked(bus, "capability:work", {}, 4, max_attempts=3)
    assert sorted(had) == ["a", "b", "c"]


async def test_a_slow_agent_raises_the_timeouts_of_who_sets_none() -> None:
    agent, started = Agent("slow"), asyncio.Event()

    @agent.capability("work", max_process=60)
    async def work(body: dict[str, Any]) -> str:
        started.set()
        await asyncio.Event().wait()
        return "never"

    async with TestReach(agent) as bus:
        request = asyncio.ensure_future(bus.request("capability:work", {}, max_attempts=1))
        await bus.settle()
        assert started.is_set()
        await bus.advance(55)
        assert not request.done(), "its processing time is 60 s, not 15"
        await bus.advance(25)
        assert (await request).code in {"timeout.processing", "timeout.total"}
