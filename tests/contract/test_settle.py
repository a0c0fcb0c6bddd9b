"""settle: the hand is the fence, the first answer counts."""

import pytest

from reach.backend.keys import GROUP_AGENT
from reach.backend.steps import Answer, Plan, Settlement
from reach.envelope.ledger import LegState
from reach.errors import BackendError
from tests.contract.drive import AGENT, BOX, ENVELOPE, TO_AGENT, Drive, core, failure, new_id, retryable, success
from tests.contract.places import KEYS

INBOX = KEYS.inbox(0, AGENT, "normal")


async def test_success_ends_the_leg_with_one_receipt(drive: Drive) -> None:
    taken = await drive.running()
    assert await drive.settle(taken, success('{"n": 1.0}')) == "done"
    receipt = await drive.receipt()
    assert (receipt["status"], receipt["code"], receipt["output"]) == ("success", "ok", {"n": 1.0})
    assert (receipt["attempts"], receipt["retry_count"]) == (1, 0)
    assert (receipt["target_agent"], receipt["target_instance"]) == (AGENT, "i1")
    assert receipt["finished_at"] >= taken.now_ms
    assert (await drive.leg(taken.msg_id)).state is LegState.DONE
    assert (await drive.head(taken.msg_id)).open == 0


async def test_nothing_is_left_of_it_but_the_record(drive: Drive) -> None:
    taken = await drive.running()
    await drive.settle(taken, success())
    assert await drive.inbox() == []
    assert await drive.place.pending(INBOX, GROUP_AGENT) == []
    assert await drive.place.due() == {}
    assert await drive.place.type_of(KEYS.envelope(0, taken.msg_id)) == "none"


async def test_the_output_is_carried_byte_for_byte(drive: Drive) -> None:
    odd = '{ "a" : 1.0,"b":1e400 , "c":9223372036854775808,"d":"\\u00e9\\ud83c\\udf78"}'
    taken = await drive.running()
    await drive.settle(taken, success(odd))
    receipts = [entry.data for entry in await drive.mail() if entry.kind == "receipt"]
    assert f'"output":{odd},'.encode() in receipts[0]
    record = await drive.backend.inspect(0, taken.msg_id)
    assert record is not None
    assert f'"output":{odd},'.encode() in record.receipts[0]


async def test_the_receipt_measures_queue_and_run(drive: Drive) -> None:
    await drive.sent()
    await drive.place.pass_time(2_000)
    taken = await drive.taken()
    await drive.place.pass_time(3_000)
    await drive.settle(taken, success())
    receipt = await drive.receipt()
    assert 2_000 <= receipt["queue_ms"] < 2_900
    assert 3_000 <= receipt["duration_ms"] < 3_900


async def test_a_failure_is_final(drive: Drive) -> None:
    taken = await drive.running()
    assert await drive.settle(taken, failure()) == "done"
    receipt = await drive.receipt()
    assert (receipt["status"], receipt["code"], receipt["attempts"]) == ("failed", "handler.rejected", 1)
    assert await drive.work("again") == []


async def test_a_retryable_result_comes_back_for_a_decision(drive: Drive) -> None:
    taken = await drive.running()
    assert await drive.settle(taken, retryable("handler.error", '{"trace":"x"}')) == "done"
    leg = await drive.leg(taken.msg_id)
    assert (leg.state, leg.attempt, leg.tried) == (LegState.RETURNED, 1, (AGENT,))
    assert leg.core == core("retryable", "handler.error")
    assert leg.details == '{"trace":"x"}'
    assert len(leg.history) == 1
    assert '"attempt":1' in leg.history[0]
    assert '"code":"handler.error"' in leg.history[0]
    entry = await drive.asked_again()
    assert entry.fields == {b"m": taken.msg_id.encode(), b"l": b"0", b"h": taken.hand.encode()}
    assert await drive.receipts() == []
    assert await drive.bytes_of(taken.msg_id) == ENVELOPE
    assert await drive.inbox() == []


async def test_a_lost_again_is_asked_for_by_due(drive: Drive) -> None:
    taken = await drive.running()
    await drive.settle(taken, retryable())
    entry = await drive.asked_again()
    await drive.backend.finish_work(0, [entry])
    await drive.live(3_100)
    assert (await drive.decide(await drive.asked_again(), TO_AGENT)).verdict == "done"


async def test_every_run_counts_and_is_remembered(drive: Drive) -> None:
    msg_id, entry = await drive.returned("handler.error")
    await drive.decide(entry, TO_AGENT)
    await drive.settle(await drive.taken(), retryable("handler.retry"))
    leg = await drive.leg(msg_id)
    assert (leg.attempt, leg.tried) == (2, (AGENT, AGENT))
    assert ["handler.error" in leg.history[0], "handler.retry" in leg.history[1]] == [True, True]
    await drive.decide(await drive.asked_again(), TO_AGENT)
    await drive.settle(await drive.taken(), success())
    receipt = await drive.receipt()
    assert (receipt["attempts"], receipt["retry_count"]) == (3, 2)


@pytest.mark.parametrize("wait_ms", [0, 1_500])
async def test_a_return_with_a_wait_burns_no_attempt(drive: Drive, wait_ms: int) -> None:
    taken = await drive.running()
    assert await drive.settle(taken, retryable("handler.retry"), wait_ms=wait_ms) == "done"
    leg = await drive.leg(taken.msg_id)
    assert (leg.state, leg.attempt, leg.wait_ms, leg.tried) == (LegState.RETURNED, 0, wait_ms, ())
    await drive.asked_again()


# ---------------------------------------------------------------- the fence


async def test_the_one_that_closed_it_may_repeat(drive: Drive) -> None:
    taken = await drive.running()
    await drive.settle(taken, success("1"))
    await drive.mail()
    assert await drive.settle(taken, success("2")) == "done"
    assert await drive.mail() == []
    record = await drive.backend.inspect(0, taken.msg_id)
    assert record is not None
    assert b'"output":1,' in record.receipts[0]


async def test_the_one_that_returned_it_may_repeat(drive: Drive) -> None:
    taken = await drive.running()
    await drive.settle(taken, retryable())
    assert await drive.settle(taken, retryable()) == "done"
    assert (await drive.leg(taken.msg_id)).attempt == 1
    await drive.asked_again()


async def test_another_instance_is_stale(drive: Drive) -> None:
    taken = await drive.running()
    assert await drive.settle(taken, success(), "i2") == "stale"
    assert await drive.receipts() == []
    assert (await drive.leg(taken.msg_id)).state is LegState.RUNNING
    await drive.settle(taken, success())
    assert await drive.settle(taken, success(), "i2") == "stale"


async def test_an_old_hand_is_stale(drive: Drive) -> None:
    _, entry = await drive.returned()
    record = await drive.backend.inspect(0, entry.fields[b"m"].decode())
    assert record is not None
    await drive.decide(entry, TO_AGENT)
    new = await drive.taken()
    old = Settlement(new.msg_id, 0, entry.fields[b"h"].decode(), success(), "i1")
    assert await drive.backend.settle(0, AGENT, [old]) == ["stale"]
    assert (await drive.leg(new.msg_id)).state is LegState.RUNNING
    assert await drive.settle(new, success()) == "done"


async def test_a_cancelled_one_is_stale(drive: Drive) -> None:
    taken = await drive.running()
    await drive.backend.cancel(0, taken.msg_id, "sender-1", 1, 0)
    await drive.mail()
    assert await drive.settle(taken, success()) == "stale"
    assert await drive.mail() == []


async def test_without_a_record_it_is_unknown(drive: Drive) -> None:
    taken = await drive.running()
    await drive.place.delete(KEYS.message(0, taken.msg_id))
    assert await drive.settle(taken, success()) == "unknown"
    assert await drive.inbox() == []
    nobody = Settlement(new_id(), 0, "1-1", success(), "i1")
    assert await drive.backend.settle(0, AGENT, [nobody]) == ["unknown"]


async def test_an_answer_after_the_total_ends_it_as_due_would(drive: Drive) -> None:
    taken = await drive.running(total_ms=5_000)
    await drive.place.pass_time(5_001)
    assert await drive.settle(taken, success()) == "stale"
    receipt = await drive.receipt()
    assert (receipt["code"], receipt["details"]["state"]) == ("timeout.total", "running")
    assert (await drive.leg(taken.msg_id)).state is LegState.EXPIRED


async def test_another_agent_is_stale(drive: Drive) -> None:
    taken = await drive.running()
    await drive.backend.open_inbox(0, "a2")
    assert await drive.settle_as("a2", taken, success()) == "stale"
    assert await drive.settle(taken, success()) == "done"


# ---------------------------------------------------------------- without scripts (section 10)


async def test_a_plain_reader_is_settled_by_a_router(drive: Drive) -> None:
    msg_id = await drive.sent()
    (hand,) = await drive.place.read_plain(INBOX, GROUP_AGENT, "plain-1")
    await drive.place.pass_time(2_000)
    settlement = Settlement(msg_id, 0, hand, success("7"))
    assert await drive.backend.settle(0, AGENT, [settlement]) == ["done"]
    receipt = await drive.receipt()
    assert (receipt["output"], receipt["target_instance"], receipt["attempts"]) == (7, "plain-1", 1)
    assert 2_000 <= receipt["duration_ms"] < 2_900
    assert await drive.inbox() == []
    assert await drive.place.pending(INBOX, GROUP_AGENT) == []


async def test_a_router_may_settle_twice(drive: Drive) -> None:
    msg_id = await drive.sent()
    (hand,) = await drive.place.read_plain(INBOX, GROUP_AGENT, "plain-1")
    settlement = Settlement(msg_id, 0, hand, success())
    await drive.backend.settle(0, AGENT, [settlement])
    assert await drive.backend.settle(0, AGENT, [settlement]) == ["done"]
    assert len(await drive.receipts()) == 1


async def test_a_plain_reader_may_settle_by_script(drive: Drive) -> None:
    msg_id = await drive.sent()
    (hand,) = await drive.place.read_plain(INBOX, GROUP_AGENT, "plain-1")
    settlement = Settlement(msg_id, 0, hand, success(), "plain-1")
    assert await drive.backend.settle(0, AGENT, [settlement]) == ["done"]


async def test_a_plain_readers_retryable_result_returns(drive: Drive) -> None:
    msg_id = await drive.sent()
    (hand,) = await drive.place.read_plain(INBOX, GROUP_AGENT, "plain-1")
    assert await drive.backend.settle(0, AGENT, [Settlement(msg_id, 0, hand, retryable())]) == ["done"]
    assert (await drive.leg(msg_id)).attempt == 1
    await drive.asked_again()


# ---------------------------------------------------------------- batches and broken things


async def test_a_batch_is_answered_in_its_order(drive: Drive) -> None:
    await drive.sent()
    await drive.sent()
    one, two = await drive.take()
    batch = [
        Settlement(two.msg_id, 0, two.hand, success("2"), "i1"),
        Settlement(new_id(), 0, "1-1", success(), "i1"),
        Settlement(one.msg_id, 0, one.hand, success("1"), "i1"),
    ]
    assert await drive.backend.settle(0, AGENT, batch) == ["done", "unknown", "done"]
    assert [each["output"] for each in await drive.receipts()] == [2, 1]
    assert await drive.backend.settle(0, AGENT, []) == []


async def test_more_than_one_call_holds_is_settled_whole(drive: Drive) -> None:
    batch = [Settlement(new_id(), 0, "1-1", success(), "i1") for _ in range(230)]
    assert await drive.backend.settle(0, AGENT, batch) == ["unknown"] * 230


async def test_a_broken_mailbox_leaves_the_receipt_in_the_ledger(drive: Drive) -> None:
    taken = await drive.running()
    await drive.place.spoil(KEYS.mail(0, BOX))
    assert await drive.settle(taken, success()) == "done"
    record = await drive.backend.inspect(0, taken.msg_id)
    assert record is not None
    assert b'"code":"ok"' in record.receipts[0]
    await drive.place.delete(KEYS.mail(0, BOX))


async def test_what_is_no_json_object_is_refused_and_changes_nothing(drive: Drive) -> None:
    taken = await drive.running()
    with pytest.raises(BackendError):
        await drive.settle(taken, Answer("success", "ok", "not an object"))
    assert (await drive.leg(taken.msg_id)).state is LegState.RUNNING
    assert await drive.settle(taken, success()) == "done"


async def test_bytes_lost_with_the_inbox_end_a_return(drive: Drive) -> None:
    taken = await drive.running()
    await drive.place.delete(INBOX)
    assert await drive.settle(taken, retryable()) == "done"
    assert (await drive.receipt())["code"] == "backend.unavailable"
    await drive.backend.open_inbox(0, AGENT)


async def test_an_answer_counts_also_when_the_inbox_is_gone(drive: Drive) -> None:
    taken = await drive.running()
    await drive.place.delete(INBOX)
    assert await drive.settle(taken, success()) == "done"
    assert (await drive.receipt())["code"] == "ok"


async def test_a_delayed_plan_is_kept_when_the_return_asked_for_a_wait(drive: Drive) -> None:
    taken = await drive.running()
    await drive.settle(taken, retryable("handler.retry"), wait_ms=700)
    await drive.decide(await drive.asked_again(), Plan("delay", wait_ms=700))
    leg = await drive.leg(taken.msg_id)
    assert (leg.state, leg.attempt) == (LegState.WAITING, 0)
