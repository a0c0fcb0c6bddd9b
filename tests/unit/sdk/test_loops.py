"""Conversations that come back to where they were: refused by their path, unless it is the asker who is asked back."""

from typing import Any
from uuid import uuid4

import msgspec
import pytest

from reach import Agent, Context, Receipt
from reach.envelope.message import Envelope, Payload, Source, Target, Traces
from reach.testing import TestReach

BACK = {"word": "back"}


def asking(name: str, target: str, body: dict[str, Any] | None = None, *, agent_id: str = "", fails: int = 0) -> Agent:
    """An agent that asks on and says what came of it; to BACK it has an answer of its own, after so many failures."""
    agent = Agent(agent_id or name)
    failures = iter(range(fails))

    @agent.capability(name)
    async def work(asked: dict[str, Any], ctx: Context) -> Any:
        if asked == BACK:
            if next(failures, None) is not None:
                raise ValueError("not yet")
            return f"answered by {name}"
        receipt = await ctx.request(target, body if body is not None else asked, timeout=20)
        return receipt.output if receipt.ok else receipt.code

    return agent


async def ask(bus: TestReach, target: str, seconds: float = 10) -> Receipt[Any]:
    handle = await bus.send(target, {})
    await bus.advance(seconds)
    return await handle.receipt(0)


async def by_hand(bus: TestReach, pattern: str, hops: tuple[str, ...], in_reply_to: str | None = None) -> str:
    """The code with which a plain message ends."""
    envelope = Envelope(
        msg_id=str(uuid4()),
        type="request",
        timestamp=0,
        source=Source(agent_id=hops[-1]),
        target=Target(pattern=pattern),
        payload=Payload(body=msgspec.Raw(msgspec.json.encode(BACK))),
        traces=Traces(previous_hops=hops),
        in_reply_to=in_reply_to,
    )
    await bus.reach.backend.submit(0, "normal", msgspec.json.encode(envelope))
    await bus.advance(5)
    record = await bus.reach.backend.inspect(0, envelope.msg_id)
    assert record is not None
    return record.legs[0].code


async def test_a_b_c_a_is_refused() -> None:
    async with TestReach(asking("a", "b"), asking("b", "c"), asking("c", "capability:a")) as bus:
        assert (await ask(bus, "a")).output == "loop.detected"
        assert [envelope.traces.previous_hops for envelope in bus.sent] == [(), ("a",), ("a", "b"), ("a", "b", "c")]


@pytest.mark.parametrize(
    ("hops", "replies", "code"),
    [
        (("a", "b"), False, "loop.detected"),
        (("a", "b"), True, "ok"),
        (("b",), False, "ok"),
        (("a",), False, "loop.detected"),
    ],
)
async def test_a_b_a_is_refused_unless_it_replies_to_a(hops: tuple[str, ...], replies: bool, code: str) -> None:
    async with TestReach(asking("a", "b"), asking("b", "a", BACK)) as bus:
        await ask(bus, "a")
        sent_by_a = next(envelope.msg_id for envelope in bus.sent if envelope.source.agent_id == "a")
        assert await by_hand(bus, "agent_id:a", hops, sent_by_a if replies else None) == code


@pytest.mark.parametrize("name", ["a", "a-{instance}"])
async def test_the_asker_may_be_asked_back_while_it_waits(name: str) -> None:
    async with TestReach(asking("a", "b", agent_id=name), asking("b", "capability:a", BACK)) as bus:
        assert (await ask(bus, "a")).output == "answered by a"
        assert bus.sent[-1].target.pattern == "capability:a"


async def test_a_call_back_that_failed_once_comes_to_the_asker_again() -> None:
    async with TestReach(asking("a", "b", fails=1), asking("b", "agent_id:a", BACK)) as bus:
        assert (await ask(bus, "a")).output == "answered by a"


async def test_a_call_back_that_waited_for_room_comes_to_the_asker() -> None:
    """What is decided again is decided as at first."""
    async with TestReach(asking("a", "b"), asking("b", "agent_id:a", BACK)) as bus:
        await bus.reach.backend.set_meta("routes", "agent_id:a", b'{"max_inbox":1,"on_full":"wait"}')
        handle = await bus.send("a", {})
        await bus.advance(2)
        assert bus.sent[-1].target.pattern == "agent_id:a"
        await bus.reach.backend.set_meta("routes", "agent_id:a", None)
        await bus.advance(5)
        assert (await handle.receipt(0)).output == "answered by a"


async def test_an_agent_whose_id_begins_with_the_name_of_the_asker_is_not_the_asker() -> None:
    agents = [asking("first", "a", agent_id="a-audit"), asking("a", "b"), asking("b", "capability:first")]
    async with TestReach(*agents) as bus:
        assert (await ask(bus, "first")).output == "loop.detected"
        assert bus.sent[-1].traces.previous_hops == ("a-audit", "a", "b")


async def test_nobody_sends_to_itself() -> None:
    async with TestReach(asking("a", "agent_id:a")) as bus:
        assert (await ask(bus, "a")).output == "loop.detected"


async def test_a_broadcast_spares_those_on_its_path_and_only_them() -> None:
    heard: list[str] = []
    agents = [Agent(name, groups=("all",)) for name in ("a", "b", "c")]
    for agent in agents:

        @agent.on("event")
        async def hear(body: Any, ctx: Context, name: str = agent.template) -> None:
            heard.append(name)
            if name == "b" and body == "go":
                receipts = await ctx.request("group:all", "heard", type="event", scope="all", timeout=20)
                assert [receipt.target_agent for receipt in receipts] == ["a", "c"]

    async with TestReach(*agents) as bus:
        await bus.send("agent_id:b", "go", type="event")
        await bus.advance(5)
        assert sorted(heard) == ["a", "b", "c"]
