"""Every receipt has every field, whoever made it: a handler, a router or a script (PROTOCOL, section 4)."""

import json
from collections.abc import Awaitable, Callable

import pytest

from reach.backend.steps import Answer, Plan, Refuse
from reach.delivery.answers import code_answer, kept_answer, make_answer, read_answer, refusal
from reach.errors import EnvelopeError
from tests.contract.drive import AGENT, BOX, TO_AGENT, Drive, new_id, retryable, success
from tests.contract.places import KEYS
from tests.contract.receipt_fields import assert_whole

INBOX = KEYS.inbox(0, AGENT, "normal")
Ending = Callable[[Drive], Awaitable[str]]


async def answered(drive: Drive) -> str:
    taken = await drive.running()
    answer, _ = read_answer(b'{"status":"success"}')
    await drive.settle(taken, answer)
    return "ok"


async def rejected(drive: Drive) -> str:
    await drive.settle(await drive.running(), make_answer("failed", error_message='no "such" order', cost=1e-9))
    return "handler.rejected"


async def settled_without_a_code(drive: Drive) -> str:
    taken = await drive.running()
    await drive.settle(taken, Answer("failed", "", "{}"))
    return "handler.rejected"


async def given_up(drive: Drive) -> str:
    msg_id, entry = await drive.returned()
    answer = kept_answer(await drive.leg(msg_id))
    await drive.decide(entry, Plan("finish", answer=answer, dead=True))
    ((_, letter),) = await drive.backend.dead_letters(0)
    assert_whole(json.loads(letter[b"r"]))
    return "handler.error"


async def found_nobody(drive: Drive) -> str:
    await drive.sent(Plan("finish", answer=code_answer("route.not_found", "nobody")))
    return "route.not_found"


async def refused_by_the_router(drive: Drive) -> str:
    error = EnvelopeError("envelope.bad_field", "no", msg_id=new_id(), details={"field": "ttl_ms"})
    receipt = refusal(error, at_ms=await drive.backend.now_ms(), durability="memory")
    await drive.route(Refuse(await drive.entry(), BOX, receipt))
    return "envelope.bad_field"


async def overtaken_by_its_total(drive: Drive) -> str:
    await drive.running(total_ms=1_000)
    await drive.place.pass_time(1_500)
    await drive.backend.due(0)
    return "timeout.total"


async def answered_too_late(drive: Drive) -> str:
    taken = await drive.running(total_ms=1_000)
    await drive.place.pass_time(1_500)
    await drive.settle(taken, success())
    return "timeout.total"


async def never_taken(drive: Drive) -> str:
    await drive.sent(ttl_ms=1_000)
    await drive.place.pass_time(1_500)
    await drive.backend.due(0)
    return "ttl.expired"


async def taken_too_late(drive: Drive) -> str:
    await drive.sent(ttl_ms=1_000)
    await drive.place.pass_time(1_500)
    assert await drive.take() == []
    return "ttl.expired"


async def cancelled(drive: Drive) -> str:
    await drive.backend.cancel(0, (await drive.running()).msg_id, "sender-1", 1, 0)
    return "cancelled"


async def cancelled_after_a_run(drive: Drive) -> str:
    msg_id, _ = await drive.returned()
    await drive.backend.cancel(0, msg_id, "sender-1", 1, 0)
    return "cancelled"


async def cancelled_before_it_came(drive: Drive) -> str:
    msg_id = new_id()
    await drive.backend.cancel(0, msg_id, "sender-1", 1, 0)
    await drive.sent(msg_id=msg_id)
    return "cancelled"


async def lost_with_its_inbox(drive: Drive) -> str:
    await drive.sent(Plan("deliver", "gone"), scope="all")
    return "agent.lost"


async def lost_bytes(drive: Drive) -> str:
    taken = await drive.running()
    await drive.place.delete(INBOX)
    await drive.settle(taken, retryable())
    return "backend.unavailable"


async def lost_agent(drive: Drive) -> str:
    await drive.past_grace()
    await drive.running(processing_ms=60_000, total_ms=120_000)
    await drive.live(17_500)
    entry = await drive.asked_again()
    answer = kept_answer(await drive.leg(entry.fields[b"m"].decode()))
    await drive.decide(entry, Plan("finish", answer=answer))
    return "agent.lost"


async def removed_agent(drive: Drive) -> str:
    taken = await drive.running(total_ms=120_000)
    await drive.place.pass_time(16_000)
    assert await drive.backend.close_inbox(0, AGENT)
    await drive.decide(await drive.asked_again(), Plan("finish", answer=kept_answer(await drive.leg(taken.msg_id))))
    return "agent.lost"


async def stored(drive: Drive) -> str:
    taken = await drive.running()
    await drive.settle(taken, success())
    assert_whole(await drive.receipt())
    await drive.sent(msg_id=taken.msg_id)
    return "ok"


async def another_content(drive: Drive) -> str:
    msg_id = await drive.sent(reply_to="")
    await drive.sent(msg_id=msg_id, fingerprint="0" * 16)
    return "envelope.id_conflict"


async def one_caller_too_many(drive: Drive) -> str:
    msg_id = await drive.sent(reply_to="b1")
    for box in ("b2", "b3", "b4", BOX):
        await drive.sent(msg_id=msg_id, reply_to=box)
    return "overloaded"


async def broken_in_the_middle(drive: Drive) -> str:
    _, result = await drive.send(TO_AGENT, Plan("finish"), scope="all")
    assert result.verdict == "error"
    ((_, letter),) = await drive.backend.dead_letters(0)
    assert_whole(json.loads(letter[b"r"]))
    return "backend.unavailable"


ENDINGS: tuple[Ending, ...] = (
    *(answered, rejected, settled_without_a_code, given_up, found_nobody, refused_by_the_router),
    *(overtaken_by_its_total, answered_too_late, never_taken, taken_too_late),
    *(cancelled, cancelled_after_a_run, cancelled_before_it_came),
    *(lost_with_its_inbox, lost_bytes, lost_agent, removed_agent),
    *(stored, another_content, one_caller_too_many, broken_in_the_middle),
)


@pytest.mark.parametrize("ending", ENDINGS, ids=lambda ending: ending.__name__)
async def test_every_receipt_has_every_field(drive: Drive, ending: Ending) -> None:
    code = await ending(drive)
    receipts = await drive.receipts()
    assert receipts
    assert [receipt["leg"] for receipt in receipts] == list(range(len(receipts))), "one for each leg"
    for receipt in receipts:
        assert_whole(receipt)
        assert receipt["code"] == code
        record = await drive.backend.inspect(0, receipt["msg_id"])
        if record is not None and code not in {"envelope.id_conflict", "overloaded"}:
            kept = json.loads(record.receipts[receipt["leg"]])
            assert kept == receipt | {"stored": True}
