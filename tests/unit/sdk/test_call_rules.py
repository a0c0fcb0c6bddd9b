"""Who may call whom, from the SDK: refused at once, for as long as the rule stands; what is no call goes on."""

from typing import Any

import pytest

from reach import Agent, Context, Rejected
from reach.testing import TestReach


def desk() -> Agent:
    agent = Agent("desk")

    @agent.capability("refund")
    async def refund(body: Any, ctx: Context) -> Any:
        if body == "ask":
            return await ctx.input_required("sure?")
        if body == "fail":
            raise ValueError("not now")
        return "paid"

    return agent


DENY = b'{"source": "*", "target": "capability:refund", "effect": "deny"}'


async def test_what_is_denied_is_told_at_once_and_an_allowed_one_gets_it() -> None:
    async with TestReach(desk()) as bus:
        reach = bus.reach
        assert (await bus.request("refund", {})).output == "paid"
        await reach.backend.set_meta("meta", "closed", b"1")
        receipt = await bus.request("refund", {})
        assert (receipt.status, receipt.code, receipt.attempts) == ("failed", "auth.denied", 0)
        assert receipt.details["reasons"][0]["filter"] == "rules"
        with pytest.raises(Rejected, match="may not call capability:refund"):
            await reach.ask("refund", {})
        allow = f'{{"source": "{reach.agent_id}", "target": "agent_id:desk", "effect": "allow"}}'
        await reach.rules.set("me", allow.encode())
        assert (await bus.request("refund", {})).output == "paid"


async def test_a_cancel_and_an_answer_are_no_calls() -> None:
    async with TestReach(desk()) as bus:
        asked, waiting = await bus.send("refund", "ask"), await bus.send("refund", "ask")
        later = await bus.send("refund", {}, delay=60)
        await bus.settle()
        await bus.reach.rules.set("no", DENY)
        assert await later.cancel()
        assert await waiting.cancel()
        await asked.answer("yes")
        await bus.settle()
        receipt = await asked.receipt(1)
        assert receipt.code == "auth.denied", "the answer has been taken; the run that would go on with it may not"
        assert (await later.receipt(1)).code == "cancelled"


async def test_what_waits_for_its_retry_ends_when_a_rule_comes() -> None:
    async with TestReach(desk()) as bus:
        handle = await bus.send("refund", "fail")
        await bus.settle()
        await bus.reach.rules.set("no", DENY)
        await bus.advance(5)
        receipt = await handle.receipt(1)
    assert (receipt.code, receipt.status) == ("auth.denied", "failed")


async def test_a_dead_letter_goes_by_the_rules_of_its_own_source() -> None:
    async with TestReach(desk()) as bus:
        reach = bus.reach
        handle = await bus.send("refund", "fail", max_attempts=1)
        await bus.advance(2)
        assert (await handle.receipt(1)).code == "handler.error"
        (letter,) = [one async for one in reach.dead_letters.list()]
        await reach.rules.set("no", DENY)
        sent = await reach.dead_letters.requeue(letter)
        await bus.advance(2)
        record = await reach.backend.inspect(0, sent.msg_id)
        assert record is not None
        assert record.legs[0].code == "auth.denied"
