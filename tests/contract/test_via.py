"""`via` of a receipt: how the last hand-over came about, whoever made the receipt and however it is written."""

import json
from collections.abc import Awaitable, Callable

import pytest

from reach.backend.steps import Answer, Plan
from reach.delivery.answers import code_answer, kept_answer
from tests.contract.drive import AGENT, BOX, TO_AGENT, Drive, core, retryable, success
from tests.contract.receipt_fields import assert_whole

FALLBACK = Plan("deliver", AGENT, via="fallback")
Ending = Callable[[Drive], Awaitable[None]]


async def answered(drive: Drive) -> None:
    await drive.settle(await drive.running_by(FALLBACK), success('"a\\"via\\":null,\\"retry_after_ms\\":null}"'))


async def answered_in_its_own_way(drive: Drive) -> None:
    taken = await drive.running_by(FALLBACK)
    await drive.settle(taken, Answer("success", "", '{ "via" : null, "output":{"via":null} , "cost":1}'))


async def answered_with_the_least(drive: Drive) -> None:
    await drive.settle(await drive.running_by(FALLBACK), Answer("success", "", '{"retry_after_ms":null}'))


async def given_up(drive: Drive) -> None:
    taken = await drive.running_by(FALLBACK)
    await drive.settle(taken, retryable())
    answer = kept_answer(await drive.leg(taken.msg_id))
    await drive.decide(await drive.asked_again(), Plan("finish", answer=answer, dead=True))
    ((_, letter),) = await drive.backend.dead_letters(0)
    assert json.loads(letter[b"r"])["via"] == "fallback"


async def ended_by_a_router(drive: Drive) -> None:
    taken = await drive.running_by(FALLBACK)
    await drive.settle(taken, retryable())
    await drive.decide(await drive.asked_again(), Plan("finish", answer=code_answer("route.no_candidate", "nobody")))


async def over_its_total(drive: Drive) -> None:
    await drive.running_by(FALLBACK, total_ms=1_000)
    await drive.place.pass_time(1_500)
    await drive.backend.due(0)


async def cancelled(drive: Drive) -> None:
    await drive.backend.cancel(0, (await drive.running_by(FALLBACK)).msg_id, "sender-1", 1, 0)


async def not_sure_enough(drive: Drive) -> None:
    """The best answer came by the fallback; who was asked after it did not."""
    await drive.settle(await drive.running_by(FALLBACK, min_confidence=0.9), success(confidence="0.5"))
    await drive.backend.open_inbox(0, "a2")
    await drive.decide(await drive.asked_again(), Plan("deliver", "a2"))
    (taken,) = await drive.take(agent="a2")
    await drive.settle_as("a2", taken, success(confidence="0.1"))


async def moved(drive: Drive) -> None:
    await drive.past_grace()
    await drive.sent(TO_AGENT, network_ms=1_000)
    await drive.live(2_500)
    await drive.backend.open_inbox(0, "a2")
    result = await drive.decide(await drive.asked_again(), Plan("move", "a2", via="fallback", free=True))
    assert result.hands[0]
    (taken,) = await drive.take(agent="a2")
    await drive.settle_as("a2", taken, success())


ENDINGS: tuple[Ending, ...] = (
    answered,
    answered_in_its_own_way,
    answered_with_the_least,
    given_up,
    ended_by_a_router,
    over_its_total,
    cancelled,
    not_sure_enough,
    moved,
)


@pytest.mark.parametrize("ending", ENDINGS, ids=lambda ending: ending.__name__)
async def test_what_went_to_the_fallback_says_so(drive: Drive, ending: Ending) -> None:
    await ending(drive)
    receipt = await drive.receipt()
    assert_whole(receipt)
    assert receipt["via"] == "fallback"


async def test_a_stored_receipt_says_it_too(drive: Drive) -> None:
    taken = await drive.running_by(FALLBACK)
    await drive.settle(taken, success())
    await drive.receipt()
    await drive.sent(msg_id=taken.msg_id)
    receipt = await drive.receipt()
    assert (receipt["via"], receipt["stored"]) == ("fallback", True)


async def test_what_the_agent_says_itself_stands(drive: Drive) -> None:
    told = core().replace('"via":null', '"via":"a2a"')
    await drive.settle(await drive.running_by(FALLBACK), Answer("success", "ok", told))
    assert (await drive.receipt(BOX))["via"] == "a2a"


async def test_back_at_its_own_pattern_it_is_no_fallback_any_more(drive: Drive) -> None:
    await drive.settle(await drive.running_by(FALLBACK), retryable())
    await drive.decide(await drive.asked_again(), TO_AGENT)
    await drive.settle(await drive.taken(), success())
    assert (await drive.receipt())["via"] is None
