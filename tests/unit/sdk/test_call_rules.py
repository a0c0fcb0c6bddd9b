"""Who may call whom, from the SDK: refused at once, for as long as the rule stands; what is no call goes on."""

from typing import Any

import pytest

from reach import Agent, Candidate, Context, EnvelopeError, Rejected, SyncReach
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


async def test_a_dead_letter_whose_source_may_not_call_stays_where_it_is() -> None:
    async with TestReach(desk()) as bus:
        reach = bus.reach
        handle = await bus.send("refund", "fail", max_attempts=1)
        await bus.advance(2)
        assert (await handle.receipt(1)).code == "handler.error"
        (letter,) = [one async for one in reach.dead_letters.list()]
        await reach.rules.set("no", DENY)
        for target in (None, "agent_id:desk"):
            with pytest.raises(EnvelopeError, match="the rule no denies") as caught:
                await reach.dead_letters.requeue(letter, target=target)
            assert caught.value.code == "auth.denied"
        assert [one async for one in reach.dead_letters.list()] == [letter]
        await reach.rules.remove("no")
        sent = await reach.dead_letters.requeue(letter)
        await bus.advance(2)
        record = await reach.backend.inspect(0, sent.msg_id)
        assert record is not None
        assert record.legs[0].code == "handler.error", "it has run again"


async def test_where_a_message_would_go_is_explained_before_it_is_sent() -> None:
    async with TestReach(desk()) as bus:
        reach = bus.reach
        found = await reach.explain("refund", {"order": 1}, needs={"tier": "any"}, order_key="7", draws=50)
        assert (found.pattern, found.chosen, found.draws) == ("capability:refund", ("desk",), 50)
        assert found.candidates == (Candidate("desk", share=1.0, chosen=True),)
        await reach.rules.set("no", DENY)
        found = await reach.explain("agent_id:desk", scope="all")
        assert (found.chosen, found.code) == ((), "auth.denied")
        assert found.candidates[0].filter == "rules"
        assert reach.agent_id in found.candidates[0].reason
        with pytest.raises(TypeError, match="unknown option"):
            await reach.explain("refund", colour="red")  # type: ignore[call-arg]
        with pytest.raises(EnvelopeError, match="capability:refund"):
            await reach.explain("capability:Refund")


def test_without_an_event_loop_it_is_the_same() -> None:
    with SyncReach.embedded(desk(), agent_id="shop") as reach:
        assert reach.explain("refund").chosen == ("desk",)
        reach.rules.set("no", DENY)
        assert [entry.name for entry in reach.rules.list()] == ["no"]
        assert not reach.rules.test("shop", "refund").allowed
        assert reach.explain("refund").code == "auth.denied"
        assert reach.rules.remove("no")
        reach.routes.set("capability:refund", b'{"strategy": "direct"}')
        assert [route.pattern for route in reach.routes.list()] == ["capability:refund"]
        assert reach.explain("refund").strategy == "direct"
        assert reach.routes.remove("capability:refund")
        assert reach.request("refund", "fail", max_attempts=1).code == "handler.error"
        (letter,) = reach.dead_letters.list()
        assert reach.dead_letters.find(letter.msg_id) == letter
        assert reach.dead_letters.requeue(letter).sent
        assert reach.dead_letters.purge(reach.dead_letters.list()) in {0, 1}
