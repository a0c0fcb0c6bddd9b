"""cancel: by its sender, for its round; before the send arrives it leaves a tombstone."""

from reach.backend.steps import CancelResult, Plan
from reach.envelope.ledger import LegState
from tests.contract.drive import AGENT, TO_AGENT, Drive, new_id, success
from tests.contract.places import KEYS

SENDER = "sender-1"


async def cancel(drive: Drive, msg_id: str, sender: str = SENDER, round: int = 1, tomb_ms: int = 0) -> CancelResult:
    return await drive.backend.cancel(0, msg_id, sender, round, tomb_ms)


async def test_a_queued_message_ends_with_one_receipt(drive: Drive) -> None:
    msg_id = await drive.sent()
    assert await cancel(drive, msg_id) == CancelResult("cancelled", 1)
    receipt = await drive.receipt()
    assert (receipt["code"], receipt["status"], receipt["details"]["state"]) == ("cancelled", "failed", "queued")
    assert (await drive.leg(msg_id)).state is LegState.CANCELLED
    assert await drive.inbox() == []
    assert await drive.place.due() == {}


async def test_a_second_one_finds_it_ended(drive: Drive) -> None:
    msg_id = await drive.sent()
    await cancel(drive, msg_id)
    await drive.mail()
    assert await cancel(drive, msg_id) == CancelResult("ended", 0)
    assert await drive.mail() == []


async def test_a_running_one_is_seen_at_the_next_renewal(drive: Drive) -> None:
    taken = await drive.running()
    assert await cancel(drive, taken.msg_id) == CancelResult("cancelled", 1)
    assert await drive.backend.renew(0, AGENT, "i1", {"normal": [taken.hand]}) == set()
    receipt = await drive.receipt()
    assert (receipt["details"]["state"], receipt["target_instance"]) == ("running", "i1")
    assert (receipt["attempts"], (await drive.leg(taken.msg_id)).attempts) == (1, 1)  # a run that began counts


async def test_waiting_and_returned_ones_end_and_their_bytes_go(drive: Drive) -> None:
    waiting = await drive.sent(Plan("delay", wait_ms=9_000))
    returned, entry = await drive.returned()
    for msg_id in (waiting, returned):
        assert (await cancel(drive, msg_id)).what == "cancelled"
        assert await drive.place.type_of(KEYS.envelope(0, msg_id)) == "none"
    assert (await drive.decide(entry, TO_AGENT)).verdict == "done"
    assert await drive.inbox() == []


async def test_a_message_that_ended_stays_as_it_ended(drive: Drive) -> None:
    taken = await drive.running()
    await drive.settle(taken, success())
    await drive.mail()
    assert await cancel(drive, taken.msg_id) == CancelResult("ended", 0)
    assert (await drive.leg(taken.msg_id)).state is LegState.DONE
    assert await drive.mail() == []


async def test_knowing_the_id_is_not_the_right_to_cancel(drive: Drive) -> None:
    msg_id = await drive.sent()
    assert await cancel(drive, msg_id, "sender-2") == CancelResult("denied", 0)
    assert (await drive.leg(msg_id)).state is LegState.QUEUED


async def test_a_greater_round_is_left_alone(drive: Drive) -> None:
    msg_id = await drive.sent(round=3)
    assert await cancel(drive, msg_id, round=2) == CancelResult("newer", 0)
    assert (await drive.leg(msg_id)).state is LegState.QUEUED
    assert (await cancel(drive, msg_id, round=3)).what == "cancelled"


# ---------------------------------------------------------------- tombstones


async def test_a_cancel_that_overtakes_its_send_answers_it(drive: Drive) -> None:
    msg_id = new_id()
    assert await cancel(drive, msg_id) == CancelResult("tombstone", 0)
    _, result = await drive.send(msg_id=msg_id)
    assert (result.verdict, result.known) == ("done", "tombstone")
    receipt = await drive.receipt()
    assert (receipt["code"], receipt["status"], receipt["attempts"]) == ("cancelled", "failed", 0)
    assert await drive.inbox() == []
    assert await drive.place.due() == {}


async def test_the_send_after_it_is_a_duplicate(drive: Drive) -> None:
    msg_id = new_id()
    await cancel(drive, msg_id)
    await drive.send(msg_id=msg_id)
    await drive.mail()
    _, result = await drive.send(msg_id=msg_id)
    assert (result.verdict, result.known) == ("done", "duplicate")
    receipt = await drive.receipt()
    assert (receipt["code"], receipt["stored"]) == ("cancelled", True)


async def test_a_tombstone_stays_a_minute_at_least(drive: Drive) -> None:
    short, long = new_id(), new_id()
    await cancel(drive, short, tomb_ms=1)
    await cancel(drive, long, tomb_ms=120_000)
    assert 55_000 < await drive.place.ttl_ms(KEYS.message(0, short)) <= 60_000
    assert 115_000 < await drive.place.ttl_ms(KEYS.message(0, long)) <= 120_000
    await drive.place.pass_time(60_001)
    _, result = await drive.send(msg_id=short)
    assert (result.verdict, result.known) == ("done", "")
    assert len(await drive.inbox()) == 1


async def test_a_repeated_tombstone_is_a_tombstone(drive: Drive) -> None:
    msg_id = new_id()
    await cancel(drive, msg_id)
    assert await cancel(drive, msg_id) == CancelResult("tombstone", 0)


async def test_it_is_for_its_sender_only(drive: Drive) -> None:
    msg_id = new_id()
    await cancel(drive, msg_id, "sender-2")
    _, result = await drive.send(msg_id=msg_id)
    assert (result.verdict, result.known) == ("done", "")
    assert (await drive.taken()).msg_id == msg_id


async def test_another_sender_cannot_take_a_tombstone_away(drive: Drive) -> None:
    msg_id = new_id()
    await cancel(drive, msg_id, tomb_ms=120_000)
    assert await cancel(drive, msg_id, "sender-2", round=7) == CancelResult("tombstone", 0)
    assert await drive.place.ttl_ms(KEYS.message(0, msg_id)) > 115_000
    _, result = await drive.send(msg_id=msg_id)
    assert result.known == "tombstone"


async def test_another_senders_tombstone_does_not_block_the_cancel(drive: Drive) -> None:
    msg_id = new_id()
    await cancel(drive, msg_id, "sender-2")
    assert await cancel(drive, msg_id) == CancelResult("tombstone", 0)
    _, result = await drive.send(msg_id=msg_id)
    assert result.known == "tombstone"
    assert (await drive.receipt())["code"] == "cancelled"


async def test_the_round_of_a_tombstone_is_its_senders_own(drive: Drive) -> None:
    msg_id = new_id()
    await cancel(drive, msg_id, round=1)
    await cancel(drive, msg_id, "sender-2", round=9)
    assert (await drive.send(msg_id=msg_id, round=2))[1].known == ""
    # What others had buried is gone with the first send: the message is not theirs.
    assert await cancel(drive, msg_id, "sender-2", round=9) == CancelResult("denied", 0)
    assert (await drive.taken()).msg_id == msg_id


async def test_a_repeat_lowers_no_round_and_shortens_no_tombstone(drive: Drive) -> None:
    msg_id = new_id()
    await cancel(drive, msg_id, round=3, tomb_ms=120_000)
    await cancel(drive, msg_id, round=1)
    assert await drive.place.ttl_ms(KEYS.message(0, msg_id)) > 115_000
    assert (await drive.send(msg_id=msg_id, round=3))[1].known == "tombstone"


async def test_of_many_senders_the_first_eight_are_kept(drive: Drive) -> None:
    msg_id = new_id()
    for number in range(8):
        assert (await cancel(drive, msg_id, f"sender-{number}")).what == "tombstone"
    assert (await cancel(drive, msg_id, "sender-8")).what == "denied"
    assert (await cancel(drive, msg_id, "sender-7", round=2)).what == "tombstone"
    assert (await drive.send(msg_id=msg_id, round=2, sender="sender-7"))[1].known == "tombstone"


async def test_a_greater_round_runs(drive: Drive) -> None:
    msg_id = new_id()
    await cancel(drive, msg_id, round=1)
    _, result = await drive.send(msg_id=msg_id, round=2)
    assert (result.verdict, result.known) == ("done", "")
    assert len(await drive.inbox()) == 1


async def test_a_lower_round_is_answered(drive: Drive) -> None:
    msg_id = new_id()
    await cancel(drive, msg_id, round=3)
    _, result = await drive.send(msg_id=msg_id, round=2)
    assert result.known == "tombstone"


async def test_a_tombstone_is_seen_by_inspect(drive: Drive) -> None:
    msg_id = new_id()
    await cancel(drive, msg_id)
    record = await drive.backend.inspect(0, msg_id)
    assert record is not None
    assert (record.head.tombstones, record.legs) == ({SENDER: 1}, {})


async def test_due_and_settle_leave_a_tombstone_alone(drive: Drive) -> None:
    msg_id = new_id()
    await cancel(drive, msg_id)
    assert (await drive.backend.due(0, msg_id)).events == ()
    record = await drive.backend.inspect(0, msg_id)
    assert record is not None
    assert record.head.tombstones


async def test_a_record_of_the_wrong_type_is_none(drive: Drive) -> None:
    msg_id = new_id()
    await drive.place.spoil(KEYS.message(0, msg_id))
    assert (await cancel(drive, msg_id)).what == "tombstone"
    _, result = await drive.send(msg_id=msg_id)
    assert result.known == "tombstone"
