"""`@agent.ready`: which answers mean ready, where the check runs, and one that hangs."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from reach.sdk.readiness import CHECK_MS, MAX_REASON, TOO_SLOW, Condition, Readiness
from reach.testing import ManualClock, TestReach, wait_until
from tests.unit.sdk.shops import Mute, agent_with, beat_of


class Asked:
    """A readiness of its own, and how often it has told a change."""

    def __init__(self, check: Callable[[], Any]) -> None:
        self.clock = ManualClock()
        self.condition = Condition(not_ready="starting")
        self.told: list[str | None] = []
        self.service = Readiness(
            check, "one", self.condition, lambda: self.told.append(self.condition.not_ready), self.clock
        )


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (True, None),
        (False, "not ready"),
        (None, "not ready"),
        ("", "not ready"),
        (1, "not ready"),
        ("no key", "no key"),
        ("x" * 1_000, "x" * MAX_REASON),
        (ValueError("no key"), "ValueError: no key"),
        (TimeoutError("of its own"), "TimeoutError: of its own"),
        (SystemExit(3), "SystemExit: 3"),
        (Mute(), "Mute: (its text cannot be had: __str__ raises)"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("how", ["async", "thread", "thread that gives something to await"])
async def test_answers(answer: object, reason: str | None, how: str) -> None:
    def given() -> Any:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async def later() -> Any:
        return given()

    def given_later() -> Any:
        return later()

    asked = Asked({"async": later, "thread": given}.get(how, given_later))
    await asked.service.run_once()
    assert asked.condition.not_ready == reason
    assert asked.told == [reason]
    await asked.service.run_once()
    assert asked.told == [reason], "only changes are told"
    assert asked.service.interval_ms == (5_000 if reason is None else 1_000)


async def test_a_plain_function_holds_up_no_loop() -> None:
    threads: list[str] = []

    def check() -> bool:
        threads.append(threading.current_thread().name)
        return True

    await Asked(check).service.run_once()
    assert threads == ["reach-handler"]


async def test_a_check_in_the_loop_that_hangs_is_cut_off() -> None:
    cancelled = asyncio.Event()

    async def check() -> bool:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return True

    asked = Asked(check)
    run = asyncio.create_task(asked.service.run_once())
    await wait_until(lambda: asked.clock.next_at_ms)
    asked.clock.advance(CHECK_MS - 1)
    await asyncio.sleep(0)
    assert not run.done()
    asked.clock.advance(1)
    await run
    assert (asked.condition.not_ready, cancelled.is_set()) == (TOO_SLOW, True)


async def test_a_thread_that_hangs_is_asked_again_when_it_has_ended() -> None:
    go, calls = threading.Event(), 0

    def check() -> bool:
        nonlocal calls
        calls += 1
        return go.wait(30)

    asked = Asked(check)
    run = asyncio.create_task(asked.service.run_once())
    await wait_until(lambda: calls and asked.clock.next_at_ms)
    asked.clock.advance(CHECK_MS)
    await run
    assert asked.condition.not_ready == TOO_SLOW
    for _ in range(3):
        await asked.service.run_once()
    assert (calls, asked.service.in_thread) == (1, True)
    go.set()
    await wait_until(lambda: not asked.service.in_thread)
    assert asked.condition.not_ready == TOO_SLOW, "a late answer is none"
    await asked.service.run_once()
    assert calls == 2
    assert asked.condition.not_ready is None


async def test_an_agent_with_a_plain_check_becomes_ready_and_is_asked_again() -> None:
    answers: list[bool | str] = ["the model is loading", True, "no credentials"]

    async def work() -> str:
        return "done"

    agent = agent_with(work)
    agent.ready(lambda: answers.pop(0) if len(answers) > 1 else answers[0])
    async with TestReach(agent) as bus:
        await bus.advance(0.5)
        assert (await beat_of(bus, agent))["reason"] == "the model is loading"
        await bus.advance(1)
        assert await bus.ask("work") == "done"
        await bus.advance(5)
        assert (await beat_of(bus, agent))["reason"] == "no credentials"
