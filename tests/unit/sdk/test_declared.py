"""What is declared or asked wrongly is said at once, in one sentence."""

import asyncio
import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest

from reach import Agent, Reach, Retry, Status
from reach.sdk.handlers import read_handler
from reach.testing import TestReach
from tests.unit.sdk.shops import shop

Wrong = Callable[[], object]


async def nothing() -> None: ...
async def task_wanted(body: asyncio.Task[int]) -> None: ...
async def tasks_wanted(body: dict[str, list[asyncio.Task[int]] | None]) -> None: ...


def agent(**options: Any) -> Agent:
    return Agent("one", **options)


def made(agent_id: Any) -> Agent:
    return Agent(agent_id)


def named(name: Any) -> object:
    return agent().capability(name)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: agent(groups="billing"), r"groups is 'billing': a sequence is wanted, such as \('billing',\)"),
        (lambda: agent(groups=(3,)), "one of groups is 3: a str is wanted"),
        (lambda: agent().report(context_left="8000"), "context_left is '8000': an int is wanted"),  # type: ignore[arg-type]
        (lambda: agent().report(context_left=True), "context_left is True: an int is wanted"),
        (lambda: agent().report(busy="yes"), "busy is 'yes': True or False is wanted"),  # type: ignore[arg-type]
        (lambda: agent().capability("a", scheme="a.v1"), "a capability takes no 'scheme': schema, type, description"),  # type: ignore[call-arg]
        (lambda: agent(groups=3), "groups is 3"),
        (lambda: agent(groups={"a": 1}), "groups is"),
        (lambda: agent(capabilities="refund"), "capabilities is 'refund': a sequence is wanted"),
        (lambda: agent(capabilities=None), "capabilities is None"),
        (lambda: agent(concurrency="8"), "concurrency is '8': an int is wanted"),
        (lambda: agent(concurrency=True), "concurrency is True: an int is wanted"),
        (lambda: agent(weight="3"), "weight is '3': a number is wanted"),
        (lambda: agent(cost="3"), "cost is '3': a number is wanted"),
        (lambda: agent(zone=3), "zone is 3: a str is wanted, or None"),
        (lambda: made(None), "agent_id is None: a str is wanted"),
        (lambda: made(123), "agent_id is 123: a str is wanted"),
        (lambda: named(nothing), r'write @agent.capability\("nothing"\) above nothing'),
        (lambda: agent().on(nothing), r"@agent.on needs a name"),  # type: ignore[arg-type]
        (lambda: named(None), "the name given to @agent.capability is None"),
        (lambda: agent().capability("work")(3), "@agent.capability is given 3"),  # type: ignore[type-var]
        (lambda: agent().ready(3), "@agent.ready is given 3: a function is wanted"),  # type: ignore[type-var]
        (lambda: read_handler(nothing, type="request", schema=3), "schema is 3"),  # type: ignore[arg-type]
        (lambda: read_handler(task_wanted, type="request"), "a Task cannot be read from JSON"),
        (lambda: read_handler(tasks_wanted, type="request"), "a Task cannot be read from JSON"),
        (lambda: Reach.connect(None), "url is None"),  # type: ignore[arg-type]
        (lambda: Reach.connect("memory://", env=3), "env is 3"),  # type: ignore[arg-type]
        (lambda: Reach.embedded(1), "embedded is given 1: agents are wanted"),  # type: ignore[arg-type]
        (lambda: Reach.embedded(Agent), "agents are wanted"),  # type: ignore[arg-type]
        (lambda: Retry("later", "busy"), r"Retry\(after='later'\)"),
        (lambda: Retry(True), r"Retry\(after=True\)"),
        (lambda: Retry([1]), "seconds or a timedelta"),  # type: ignore[arg-type]
        (lambda: Retry(1, 2), "is 2: a str is wanted"),  # type: ignore[arg-type]
    ],
)
def test_what_is_declared_wrongly_is_a_type_error(wrong: Wrong, says: str) -> None:
    with pytest.raises(TypeError, match=says):
        wrong()


@pytest.mark.parametrize("tokens", [-1, 1 << 63])
def test_tokens_that_no_beat_can_tell_are_refused(tokens: int) -> None:
    with pytest.raises(ValueError, match=f"context_left is {tokens}: tokens from 0 are wanted"):
        agent().report(context_left=tokens)
    agent().report(context_left=(1 << 63) - 1)
    agent().report(context_left=0, busy=True)


def test_retry_takes_a_moment_or_a_message_or_both() -> None:
    assert (Retry("later").after_ms, Retry("later").message, str(Retry("later"))) == (None, "later", "later")
    assert (Retry(2, "later").after_ms, Retry(2, "later").message) == (2_000, "later")
    assert (Retry(dt.timedelta(seconds=1)).after_ms, Retry().after_ms) == (1_000, None)


@pytest.mark.parametrize(
    ("wrong", "kind", "says"),
    [
        ({"target": None}, TypeError, "target is None: a str is wanted"),
        ({"schema": 3}, TypeError, "schema is 3"),
        ({"type": 3}, TypeError, "type is 3"),
        ({"key": 3}, TypeError, "key is 3"),
        ({"correlation_id": 3}, TypeError, "correlation_id is 3"),
        ({"max_attempts": "3"}, TypeError, "max_attempts is '3'"),
        ({"priority": "high"}, TypeError, "priority is 'high'"),
        ({"priority": 0}, ValueError, "priority is 0: 1 to 10 is wanted"),
        ({"priority": 11}, ValueError, "priority is 11"),
        ({"headers": [("a", "b")]}, TypeError, "headers is"),
        ({"headers": {"a": 1}}, TypeError, "headers has 'a': 1: both must be str"),
        ({"scope": None}, ValueError, 'scope is None: "one" or "all" is wanted'),
        ({"scope": "some"}, ValueError, "scope is 'some'"),
    ],
)
async def test_what_is_asked_wrongly_is_said_and_not_sent(
    wrong: dict[str, Any], kind: type[Exception], says: str
) -> None:
    async with TestReach(shop()) as bus:
        with pytest.raises(kind, match=says):
            await bus.request(**{"target": "refund", **wrong})
        assert bus.sent == []
        assert bus.reach.outstanding == 0


async def test_ask_has_one_output_and_gather_a_target() -> None:
    async with TestReach(shop()) as bus:
        with pytest.raises(TypeError, match="takes no scope"):
            await bus.ask("refund", scope="all")  # type: ignore[call-overload]
        with pytest.raises(TypeError, match="target is None"):
            bus.gather(None)  # type: ignore[call-overload]


@pytest.mark.parametrize("name", ["", "é", "echo\n", "a b"])
async def test_a_bad_name_is_told_what_a_name_looks_like(name: str) -> None:
    async with TestReach(shop()) as bus:
        receipt = await bus.request(name)
        assert (receipt.status, receipt.code) == (Status.FAILED, "target.bad_pattern")
        assert "letters, digits, '.', '_', '-'" in (receipt.error_message or "")
