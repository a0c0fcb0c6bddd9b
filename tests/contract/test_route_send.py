"""route: a new message."""

import json

from reach.backend.steps import Plan, Refuse, Send
from reach.envelope.ledger import LegState
from tests.contract.drive import AGENT, BOX, ENVELOPE, TO_AGENT, Drive, failure, head_of, new_id, retryable
from tests.contract.places import KEYS


async def test_a_delivered_message_is_queued_and_recorded(drive: Drive) -> None:
    entry = await drive.entry()
    msg_id, result = await drive.send(entry=entry)
    (inbox_entry,) = await drive.inbox()
    assert (result.verdict, result.known, result.hands) == ("done", "", (inbox_entry[0],))
    leg, head = await drive.leg(msg_id), await drive.head(msg_id)
    assert (leg.state, leg.agent, leg.hand, leg.attempt) == (LegState.QUEUED, AGENT, inbox_entry[0], 0)
    assert (head.open, head.legs, head.mailboxes) == (1, 1, (BOX,))


async def test_the_inbox_entry_carries_what_section_10_says(drive: Drive) -> None:
    msg_id = await drive.sent()
    head = await drive.head(msg_id)
    ((_, fields),) = await drive.inbox()
    assert fields == {
        b"m": msg_id.encode(),
        b"l": b"0",
        b"e": ENVELOPE,
        b"x": str(head.first_at_ms).encode(),
        b"a": b"1",
    }


async def test_the_entry_is_acknowledged_and_deleted_in_the_same_step(drive: Drive) -> None:
    entry = await drive.entry()
    await drive.send(entry=entry)
    assert await drive.backend.own_work("router-1", 0) == []
    assert await drive.place.entries(entry.stream) == []


async def test_a_second_run_is_skipped_and_writes_nothing(drive: Drive) -> None:
    entry = await drive.entry()
    msg_id, _ = await drive.send(entry=entry)
    before = await drive.backend.inspect(0, msg_id)
    await drive.mail()
    _, again = await drive.send(entry=entry, msg_id=msg_id)
    after = await drive.backend.inspect(0, msg_id)
    assert again.verdict == "skipped"
    assert before is not None
    assert after is not None
    assert (before.head, before.legs) == (after.head, after.legs)
    assert len(await drive.inbox()) == 1
    assert await drive.mail() == []


async def test_moments_count_from_the_entry_and_not_from_the_router(drive: Drive) -> None:
    entry = await drive.entry()
    msg_id, _ = await drive.send(entry=entry, ttl_ms=1_000, total_ms=5_000)
    head = await drive.head(msg_id)
    accepted = int(entry.id.split("-")[0])
    assert head.accepted_at_ms == accepted
    assert (head.first_at_ms, head.total_at_ms) == (accepted + 1_000, accepted + 5_000)


async def test_not_before_moves_the_deadlines(drive: Drive) -> None:
    later = await drive.backend.now_ms() + 60_000
    msg_id = await drive.sent(Plan("delay", wait_ms=60_000), not_before_ms=later)
    head = await drive.head(msg_id)
    assert (head.first_at_ms, head.total_at_ms) == (later + 30_000, later + 30_000)


async def test_nobody_whose_clock_is_ahead_makes_it_begin_before_that(drive: Drive) -> None:
    later = await drive.backend.now_ms() + 60_000
    msg_id = await drive.sent(Plan("delay", wait_ms=59_000), not_before_ms=later)
    assert (await drive.leg(msg_id)).until_ms == later


async def test_an_id_a_little_ahead_counts_as_now(drive: Drive) -> None:
    now_ms = await drive.backend.now_ms()
    await drive.place.append(KEYS.ingress(0, "low"), {"e": ENVELOPE}, f"{now_ms + 30_000}-0")
    (entry,) = await drive.work()
    msg_id, _ = await drive.send(entry=entry)
    assert (await drive.head(msg_id)).accepted_at_ms <= await drive.backend.now_ms()


async def test_the_record_lives_for_its_window_after_its_total(drive: Drive) -> None:
    msg_id = await drive.sent(total_ms=40_000)
    ttl = await drive.place.ttl_ms(KEYS.message(0, msg_id))
    assert 110_000 < ttl <= 120_000  # total 40 s and a window of twice that


async def test_the_window_is_at_least_a_minute(drive: Drive) -> None:
    msg_id = await drive.sent(total_ms=1_000)
    assert 55_000 < await drive.place.ttl_ms(KEYS.message(0, msg_id)) <= 61_000


async def test_the_network_time_is_due_next(drive: Drive) -> None:
    msg_id = await drive.sent(network_ms=3_000)
    head = await drive.head(msg_id)
    due = (await drive.place.due())[msg_id]
    assert 0 <= due - (head.accepted_at_ms + 3_000) < 2_000


async def test_a_ttl_below_the_network_time_is_due_first(drive: Drive) -> None:
    msg_id = await drive.sent(ttl_ms=500)
    assert (await drive.place.due())[msg_id] == (await drive.head(msg_id)).first_at_ms


async def test_the_notice_says_routed_with_the_round(drive: Drive) -> None:
    msg_id = await drive.sent(round=3)
    (notice,) = await drive.notices()
    assert (notice["notice"], notice["msg_id"], notice["round"]) == ("routed", msg_id, 3)
    assert notice["legs"] == [{"leg": 0, "agent": AGENT}]


async def test_no_notice_where_none_is_wanted(drive: Drive) -> None:
    await drive.sent(notice="")
    assert await drive.notices() == []


async def test_fire_and_forget_is_recorded_without_a_mailbox(drive: Drive) -> None:
    msg_id = await drive.sent(reply_to="")
    assert (await drive.head(msg_id)).mailboxes == ()


async def test_a_delayed_message_waits_with_its_bytes_in_env(drive: Drive) -> None:
    msg_id = await drive.sent(Plan("delay", wait_ms=2_000))
    leg = await drive.leg(msg_id)
    assert (leg.state, leg.hand) == (LegState.WAITING, "0")
    assert await drive.bytes_of(msg_id) == ENVELOPE
    assert await drive.place.ttl_ms(KEYS.envelope(0, msg_id)) > 0
    assert await drive.inbox() == []
    due = (await drive.place.due())[msg_id]
    assert abs(due - (await drive.backend.now_ms() + 2_000)) < 2_000


async def test_a_finished_message_has_its_receipt_at_once(drive: Drive) -> None:
    msg_id = await drive.sent(Plan("finish", answer=failure("route.not_found")))
    receipt = await drive.receipt()
    assert (receipt["status"], receipt["code"], receipt["attempts"]) == ("failed", "route.not_found", 0)
    assert (await drive.leg(msg_id)).state is LegState.DONE
    assert (await drive.head(msg_id)).open == 0
    assert await drive.place.due() == {}
    assert await drive.place.type_of(KEYS.envelope(0, msg_id)) == "none"


async def test_a_dead_letter_keeps_bytes_receipt_and_history(drive: Drive) -> None:
    msg_id = await drive.sent(Plan("finish", answer=retryable("overloaded", '{"n":1}'), dead=True))
    receipt = await drive.receipt()
    ((entry_id, fields),) = await drive.backend.dead_letters(0)
    assert receipt["details"] == {"n": 1, "dead_letter": entry_id}
    assert (fields[b"m"], fields[b"e"], json.loads(fields[b"h"])) == (msg_id.encode(), ENVELOPE, [])
    assert json.loads(fields[b"r"])["code"] == "overloaded"
    assert "dead_letter" not in json.loads(fields[b"r"])["details"]


async def test_a_refused_entry_is_answered_acknowledged_and_not_recorded(drive: Drive) -> None:
    entry = await drive.entry(b"junk")
    refuse = Refuse(entry, BOX, b'{"code":"envelope.malformed"}')
    assert (await drive.route(refuse)).verdict == "done"
    assert await drive.receipts() == [{"code": "envelope.malformed"}]
    assert await drive.place.entries(entry.stream) == []
    assert (await drive.route(refuse)).verdict == "skipped"
    assert await drive.receipts() == []


async def test_a_refused_entry_may_become_a_dead_letter_byte_for_byte(drive: Drive) -> None:
    junk = b"\xff\x00junk"
    entry = await drive.entry(junk)
    dead = {"m": b"", "e": junk, "r": b"{}", "h": b"[]"}
    await drive.route(Refuse(entry, dead=dead))
    ((_, fields),) = await drive.backend.dead_letters(0)
    assert fields == {name.encode(): value for name, value in dead.items()}


async def test_a_batch_is_answered_in_its_order(drive: Drive) -> None:
    first, second = await drive.entry(), await drive.entry(b"junk")
    _, result = await drive.send(entry=first)
    results = await drive.backend.route(0, [Refuse(second), Refuse(first)])
    assert result.verdict == "done"
    assert [each.verdict for each in results] == ["done", "skipped"]
    assert await drive.backend.route(0, []) == []


async def test_a_receipt_has_every_member_of_section_4(drive: Drive) -> None:
    msg_id = await drive.sent(Plan("finish", AGENT, answer=failure()))
    receipt = await drive.receipt()
    assert list(receipt) == [
        *("msg_id", "task_id", "correlation_id", "version", "durability", "leg", "round", "target_agent"),
        *("target_instance", "attempts", "retry_count", "duration_ms", "queue_ms", "finished_at", "stored"),
        *("status", "code", "output", "error_message", "schema", "processing_host", "confidence", "partial"),
        *("cost", "via", "retry_after_ms", "details"),
    ]
    assert receipt["msg_id"] == msg_id
    assert (receipt["target_agent"], receipt["target_instance"]) == (AGENT, None)
    assert receipt["stored"] is False


async def test_a_broken_mailbox_does_not_stop_the_work(drive: Drive) -> None:
    await drive.place.spoil(KEYS.mail(0, BOX))
    msg_id, result = await drive.send()
    assert result.verdict == "done"
    taken = await drive.taken()
    assert taken.msg_id == msg_id
    await drive.place.delete(KEYS.mail(0, BOX))


async def test_a_missing_mailbox_is_not_made_by_a_writer(drive: Drive) -> None:
    await drive.sent(Plan("finish", answer=failure()), reply_to="nobody")
    assert await drive.place.type_of(KEYS.mail(0, "nobody")) == "none"


async def test_the_lane_follows_the_head(drive: Drive) -> None:
    for lane in ("high", "normal", "low"):
        await drive.sent(lane=lane)
        assert len(await drive.inbox(lane=lane)) == 1


async def test_one_plan_that_fails_does_not_stop_the_batch(drive: Drive) -> None:
    """Room is looked at first, so the neighbours are written and the one that cannot be is told apart."""
    await drive.place.delete(KEYS.inbox(0, "a2", "normal"))
    first, second = await drive.entry(), await drive.entry()
    _, gone = await drive.send(Plan("deliver", "a2"), entry=first)
    _, done = await drive.send(TO_AGENT, entry=second)
    assert (gone.verdict, done.verdict) == ("gone", "done")
    assert [entry.id for entry in await drive.backend.own_work("router-1", 0)] == [first.id]


async def test_a_decision_that_cannot_be_is_an_error_and_stays_pending(drive: Drive) -> None:
    """One bad decision poisons one message and not the batch."""
    bad, good = await drive.entry(), await drive.entry()
    msg_id, other = new_id(), new_id()
    results = await drive.backend.route(
        0,
        [
            Send(bad, msg_id, head_of(msg_id), (), ENVELOPE, BOX),
            Send(good, other, head_of(other), (TO_AGENT,), ENVELOPE, BOX),
        ],
    )
    assert [result.verdict for result in results] == ["error", "done"]
    assert results[0].error
    assert await drive.backend.inspect(0, msg_id) is None
    assert [entry.id for entry in await drive.backend.own_work("router-1", 0)] == [bad.id]
