"""route: a message that the partition knows already."""

import json

from reach.backend.steps import Plan
from tests.contract.drive import AGENT, BOX, Drive, failure, new_id, success
from tests.contract.places import KEYS


async def boxes(drive: Drive, *names: str) -> None:
    for name in names:
        await drive.backend.keep_mailbox(name, [0])
        await drive.mail(name)


async def test_a_duplicate_runs_nothing(drive: Drive) -> None:
    msg_id = await drive.sent()
    _, result = await drive.send(msg_id=msg_id)
    assert (result.verdict, result.known) == ("done", "duplicate")
    assert len(await drive.inbox()) == 1
    assert await drive.backend.own_work("router-1", 0) == []


async def test_a_duplicate_that_another_router_has_answered_is_skipped(drive: Drive) -> None:
    taken = await drive.running()
    await drive.settle(taken, success())
    await drive.mail()
    entry = await drive.entry()
    _, first = await drive.send(msg_id=taken.msg_id, entry=entry)
    _, second = await drive.send(msg_id=taken.msg_id, entry=entry)
    assert (first.known, second.verdict) == ("duplicate", "skipped")
    assert len(await drive.receipts()) == 1


async def test_a_second_caller_attaches_and_gets_the_receipt_too(drive: Drive) -> None:
    await boxes(drive, "second")
    taken = await drive.running()
    _, result = await drive.send(msg_id=taken.msg_id, reply_to="second")
    assert result.known == "duplicate"
    await drive.settle(taken, success())
    assert (await drive.receipt())["code"] == "ok"
    assert (await drive.receipt("second"))["stored"] is False


async def test_attaching_is_told_by_a_routed_notice(drive: Drive) -> None:
    await boxes(drive, "second")
    msg_id = await drive.sent(round=2)
    await drive.send(msg_id=msg_id, reply_to="second", round=2)
    (notice,) = await drive.notices("second")
    assert (notice["notice"], notice["round"]) == ("routed", 2)


async def test_a_late_duplicate_gets_the_stored_receipt_and_only_that_caller(drive: Drive) -> None:
    await boxes(drive, "second")
    taken = await drive.running()
    await drive.settle(taken, success("[1, 2.50]"))
    first = await drive.receipt()
    _, result = await drive.send(msg_id=taken.msg_id, reply_to="second")
    assert result.known == "duplicate"
    stored = await drive.receipt("second")
    assert stored.pop("stored") is True
    first.pop("stored")
    assert stored == first
    assert await drive.receipts() == []


async def test_the_same_mailbox_is_added_once(drive: Drive) -> None:
    msg_id = await drive.sent()
    await drive.send(msg_id=msg_id)
    assert (await drive.head(msg_id)).mailboxes == (BOX,)


async def test_the_fifth_caller_hears_overloaded(drive: Drive) -> None:
    await boxes(drive, "b2", "b3", "b4", "b5")
    msg_id = await drive.sent()
    for name in ("b2", "b3", "b4"):
        _, result = await drive.send(msg_id=msg_id, reply_to=name)
        assert result.known == "duplicate"
    _, result = await drive.send(msg_id=msg_id, reply_to="b5")
    assert (result.verdict, result.known) == ("done", "overloaded")
    receipt = await drive.receipt("b5")
    assert (receipt["code"], receipt["status"]) == ("overloaded", "retryable")
    assert (await drive.head(msg_id)).mailboxes == (BOX, "b2", "b3", "b4")


async def test_however_many_come_late_each_gets_the_stored_receipt(drive: Drive) -> None:
    names = [f"b{n}" for n in range(6)]
    await boxes(drive, *names)
    taken = await drive.running()
    await drive.settle(taken, success("7"))
    for name in names:
        _, result = await drive.send(msg_id=taken.msg_id, reply_to=name)
        assert result.known == "duplicate"
        notice, receipt = [json.loads(entry.data) for entry in await drive.mail(name)]
        assert (notice["notice"], receipt["code"], receipt["output"], receipt["stored"]) == ("routed", "ok", 7, True)
    assert (await drive.head(taken.msg_id)).mailboxes == (BOX,)


async def test_a_duplicate_without_a_mailbox_changes_nothing(drive: Drive) -> None:
    msg_id = await drive.sent()
    await drive.mail()
    _, result = await drive.send(msg_id=msg_id, reply_to="")
    assert result.known == "duplicate"
    assert (await drive.head(msg_id)).mailboxes == (BOX,)
    assert await drive.mail() == []


async def test_another_fingerprint_is_a_conflict_that_shows_nothing(drive: Drive) -> None:
    await boxes(drive, "second")
    taken = await drive.running()
    await drive.settle(taken, success('"secret"'))
    _, result = await drive.send(msg_id=taken.msg_id, reply_to="second", fingerprint="0" * 16)
    assert (result.verdict, result.known) == ("done", "conflict")
    receipt = await drive.receipt("second")
    assert (receipt["code"], receipt["status"], receipt["output"]) == ("envelope.id_conflict", "failed", None)
    assert receipt["target_agent"] is None
    assert (await drive.head(taken.msg_id)).mailboxes == (BOX,)


async def test_another_sender_is_a_conflict(drive: Drive) -> None:
    await boxes(drive, "second")
    msg_id = await drive.sent()
    _, result = await drive.send(msg_id=msg_id, reply_to="second", sender="sender-2")
    assert result.known == "conflict"
    assert (await drive.receipt("second"))["code"] == "envelope.id_conflict"


async def test_a_duplicate_needs_no_room(drive: Drive) -> None:
    msg_id = await drive.sent()
    _, result = await drive.send(Plan("deliver", "nobody"), msg_id=msg_id)
    assert (result.verdict, result.known) == ("done", "duplicate")


async def test_after_the_window_the_message_is_new(drive: Drive) -> None:
    taken = await drive.running(total_ms=1_000)
    await drive.settle(taken, success())
    await drive.live(125_000)
    assert await drive.backend.inspect(0, taken.msg_id) is None
    _, result = await drive.send(msg_id=taken.msg_id)
    assert (result.verdict, result.known) == ("done", "")


async def test_a_broadcast_duplicate_gets_the_receipts_of_the_legs_that_ended(drive: Drive) -> None:
    await boxes(drive, "second")
    msg_id = await drive.sent(Plan("deliver", AGENT), Plan("finish", "a2", answer=failure("agent.lost")), scope="all")
    _, result = await drive.send(msg_id=msg_id, reply_to="second", scope="all")
    assert result.known == "duplicate"
    receipt = await drive.receipt("second")
    assert (receipt["leg"], receipt["code"], receipt["stored"]) == (1, "agent.lost", True)


async def test_a_record_of_the_wrong_type_is_overwritten(drive: Drive) -> None:
    msg_id = new_id()
    await drive.place.spoil(KEYS.message(0, msg_id))
    _, result = await drive.send(msg_id=msg_id)
    assert (result.verdict, result.known) == ("done", "")
    assert (await drive.taken()).msg_id == msg_id
