"""One waiting message: which receipt counts, and when it is whole."""

import asyncio
from typing import Any

import msgspec
import pytest

from reach import Status
from reach.backend.steps import Record
from reach.clock import SystemClock
from reach.envelope.ledger import Head
from reach.envelope.receipt import Notice, ReceiptRecord
from reach.envelope.records import decode_receipt, encode_receipt
from reach.errors import EnvelopeError
from reach.sdk.pending import MAX_NOTICES, Pending
from reach.testing import ManualClock


def pending(*, broadcast: bool = False) -> Pending:
    return Pending("m", 0, sender="me", broadcast=broadcast, deadline_at_ms=1000)


def receipt(leg: int = 0, round: int = 1, code: str = "ok") -> ReceiptRecord:
    return ReceiptRecord(msg_id="m", status=Status.SUCCESS, code=code, leg=leg, round=round)


def routed(**fields: Any) -> Notice:
    return Notice("routed", "m", fields)


def record(legs: int, *receipts: ReceiptRecord, sender: str = "me") -> Record:
    head = Head(
        fingerprint="f",
        sender=sender,
        scope="all",
        lane="normal",
        ttl_ms=1,
        network_ms=1,
        processing_ms=1,
        total_ms=1,
        max_attempts=1,
        members="",
        legs=legs,
    )
    return Record("m", head, {}, receipts={r.leg: encode_receipt(r) for r in receipts})


async def test_the_first_terminal_receipt_of_a_leg_wins() -> None:
    one = pending()
    assert one.take_receipt(receipt(code="first"))
    assert not one.take_receipt(receipt(code="second"))
    assert one.receipts[0].code == "first"
    assert one.done.done()


async def test_a_receipt_of_an_older_round_does_not_count() -> None:
    one = pending()
    one.take_notice(routed(round=2, legs=[{"leg": 0, "agent": "a"}]))
    assert not one.take_receipt(receipt(round=1))
    assert one.take_receipt(receipt(round=2))


async def test_a_notice_takes_back_what_was_older() -> None:
    group = pending(broadcast=True)
    group.take_receipt(receipt(leg=0, round=1))
    group.take_notice(routed(round=2, legs=[{"leg": 0, "agent": "a"}]))
    assert not group.receipts
    assert not group.done.done()


async def test_a_broadcast_is_whole_when_every_leg_of_the_notice_has_ended() -> None:
    group = pending(broadcast=True)
    group.take_receipt(receipt(leg=1))
    unsure = group.unsure
    group.take_notice(routed(round=1, legs=[{"leg": 0, "agent": "a"}, {"leg": 1, "agent": "b"}]))
    assert (unsure, group.unsure) == (True, False)
    assert not group.done.done()
    group.take_receipt(receipt(leg=0))
    assert group.done.done()


async def test_a_refusal_ends_a_broadcast_that_nobody_was_told_the_legs_of() -> None:
    group = pending(broadcast=True)
    group.take_receipt(receipt(code="target.too_many"))
    assert group.done.done()


async def test_the_record_says_what_the_mailbox_lost() -> None:
    group = pending(broadcast=True)
    group.take_record(record(2, receipt(leg=0), receipt(leg=1)), decode_receipt)
    assert group.done.done()


async def test_somebody_elses_record_says_nothing() -> None:
    one = pending()
    one.take_record(record(1, receipt(), sender="another"), decode_receipt)
    assert not one.receipts


async def test_what_has_no_receipt_at_the_end_gets_a_local_one() -> None:
    group = pending(broadcast=True)
    group.take_notice(routed(round=3, legs=[{"leg": 0, "agent": "a"}, {"leg": 1, "agent": "b"}]))
    group.take_receipt(receipt(leg=0, round=3))
    group.end("timeout.total", "over", at_ms=7, durability="always", waited_ms=5)
    group.end("timeout.total", "again", at_ms=8, durability="always")
    local = group.receipts[1]
    assert (local.code, local.status, local.round, local.target_agent) == ("timeout.total", Status.RETRYABLE, 3, "b")
    assert local.details == {"waited_ms": 5, "local": True, "accepted": True}
    assert (local.finished_at, local.durability, local.error_message) == (7, "always", "over")
    assert group.receipts[0].code == "ok"


async def test_a_message_that_was_never_sent_ends_with_what_the_rules_say() -> None:
    group = pending(broadcast=True)
    error = EnvelopeError("target.bad_pattern", "no", details={"pattern": "x"})
    group.refuse(error, at_ms=1, durability="memory")
    assert (group.receipts[0].code, group.receipts[0].status) == ("target.bad_pattern", Status.FAILED)
    assert group.done.done()


async def test_waiting_ends_with_the_message_or_with_its_own_time() -> None:
    one, clock = pending(), ManualClock()
    task = asyncio.create_task(one.wait(clock, 100))
    await asyncio.sleep(0)
    clock.advance(100)
    assert await task is False
    task = asyncio.create_task(one.wait(clock))
    await asyncio.sleep(0)
    one.take_receipt(receipt())
    assert await task is True
    assert await one.wait(SystemClock(), 0) is True
    assert clock.next_at_ms is None


async def test_a_cancelled_wait_leaves_the_message_alone() -> None:
    one = pending()
    task = asyncio.create_task(one.wait(ManualClock()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not one.done.done()
    assert not one.done.cancelled()


async def test_notices_are_bounded_and_counted() -> None:
    one = pending()
    for _ in range(MAX_NOTICES + 3):
        assert one.take_notice(Notice("progress", "m", {"data": 1})) == 0
    assert (len(one.notices), one.noticed) == (MAX_NOTICES, MAX_NOTICES + 3)
    assert one.take_notice(routed(round=1, legs=1, total_ms=99)) == 99


async def test_a_refusal_that_names_no_agent_is_the_whole_end_and_one_that_does_is_a_legs() -> None:
    whole, legs = pending(broadcast=True), pending(broadcast=True)
    assert whole.take_receipt(receipt(code="overloaded"))
    assert whole.done.done()
    assert legs.take_receipt(msgspec.structs.replace(receipt(code="overloaded"), target_agent="a"))
    assert legs.unsure
    assert not legs.done.done()


async def test_a_message_that_was_never_sent_ends_in_its_round() -> None:
    one = pending()
    one.round = 2
    one.refuse(EnvelopeError("envelope.too_large"), at_ms=1, durability="memory")
    assert one.receipts[0].round == 2
