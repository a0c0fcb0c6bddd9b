"""The circuit of an agent: what opens it, what does not, and what is kept of it."""

import pytest

from reach.backend.steps import Answer, Plan
from reach.envelope.circuit import OPEN_MS
from tests.contract.drive import AGENT, TO_AGENT, Drive, failure, new_id, retryable, success
from tests.contract.failing import LONG, OPENS, ended, is_open, opened, tried
from tests.contract.places import KEYS


@pytest.fixture
async def late(drive: Drive) -> Drive:
    """A drive whose router has run for so long that no grace holds anything up."""
    await drive.past_grace()
    return drive


# ---------------------------------------------------------------- what opens it


async def test_five_failures_in_a_row_open_it_and_nothing_more_is_written(drive: Drive) -> None:
    await opened(drive)
    entry, msg_id = await drive.entry(), new_id()
    due = await drive.place.due()
    _, result = await drive.send(entry=entry, msg_id=msg_id)
    assert (result.verdict, result.hands) == ("open", ())
    assert OPEN_MS - 5_000 < result.wait_ms <= OPEN_MS
    assert await drive.backend.inspect(0, msg_id) is None
    assert await drive.inbox() == []
    assert await drive.place.due() == due
    assert entry.id in [each.id for each in await drive.backend.own_work("router-1", 0)]


async def test_the_same_entry_can_go_to_another_agent_or_wait(drive: Drive) -> None:
    await drive.backend.open_inbox(0, "a2")
    await opened(drive)
    first, second = await drive.entry(), await drive.entry()
    assert (await drive.send(entry=first))[1].verdict == "open"
    assert (await drive.send(Plan("deliver", "a2"), entry=first))[1].verdict == "done"
    assert (await drive.send(Plan("delay", wait_ms=1_000), entry=second))[1].verdict == "done"


async def test_a_message_that_fails_where_it_has_failed_before_says_nothing_new(drive: Drive) -> None:
    """Else one message that can only fail would keep its agent from all others."""
    msg_id, entry = await drive.returned("handler.error", **LONG)
    for _ in range(OPENS - 2):
        await ended(drive, retryable())
    for _ in range(OPENS):
        assert (await drive.decide(entry, TO_AGENT)).verdict == "done"
        assert await drive.settle(await drive.taken(), retryable()) == "done"
        (entry,) = [each for each in await drive.work("again") if each.fields[b"m"].decode() == msg_id]
    assert not await is_open(drive)
    await drive.take()
    await ended(drive, retryable())
    assert await is_open(drive)


async def test_a_success_in_between_begins_the_row_anew(drive: Drive) -> None:
    for _ in range(2):
        for _ in range(OPENS - 1):
            await ended(drive, retryable())
        await ended(drive, success())
    assert not await is_open(drive)


@pytest.mark.parametrize(
    ("answer", "wait_ms"),
    [
        (failure(), -1),
        (failure("payload.invalid"), -1),
        (success(), -1),
        (retryable("context.exceeded"), -1),
        (retryable("overloaded"), -1),
        (retryable("handler.retry"), 4_000),
        (retryable("handler.retry"), 0),
    ],
)
async def test_what_is_an_answer_speaks_for_the_agent(drive: Drive, answer: Answer, wait_ms: int) -> None:
    for _ in range(OPENS - 1):
        await ended(drive, retryable())
    await ended(drive, answer, wait_ms=wait_ms)
    await ended(drive, retryable())
    assert not await is_open(drive)


@pytest.mark.parametrize(
    ("code", "wait_ms"),
    [
        ("agent.lost", 0),
        ("agent.lost", 1_000),
        ("handler.error", 1_000),
        ("backend.unavailable", -1),
        ("timeout.total", -1),
    ],
)
async def test_what_is_handed_back_says_nothing_of_the_agent(drive: Drive, code: str, wait_ms: int) -> None:
    for _ in range(OPENS - 1):
        await ended(drive, retryable())
    for _ in range(OPENS):
        await ended(drive, retryable(code), wait_ms=wait_ms)
    assert not await is_open(drive)
    await drive.take()
    await ended(drive, retryable())
    assert await is_open(drive)


@pytest.mark.parametrize("code", ["handler.error", "handler.retry", "timeout.processing", "probe.failed", "my.own"])
async def test_what_comes_back_is_a_failure_whatever_its_code(drive: Drive, code: str) -> None:
    for _ in range(OPENS):
        await ended(drive, retryable(code))
    assert await is_open(drive)


async def test_what_was_cancelled_says_nothing_of_the_agent(drive: Drive) -> None:
    for _ in range(OPENS - 1):
        await ended(drive, retryable())
    for _ in range(OPENS):
        taken = await drive.running(**LONG)
        assert (await drive.backend.cancel(0, taken.msg_id, "sender-1", 1, 0)).closed == 1
        assert await drive.settle(taken, retryable()) == "stale"
    await ended(drive, retryable())
    assert await is_open(drive)


async def mixed(drive: Drive, good: int, bad: int) -> None:
    """So many of both, and never five failures in a row."""
    every = bad // good
    for number in range(bad):
        await ended(drive, retryable())
        if (number + 1) % every == 0 and good > 0:
            await ended(drive, success())
            good -= 1
    assert not good


async def test_more_than_half_of_twenty_open_it(drive: Drive) -> None:
    await mixed(drive, 9, 10)  # 19 in all, 10 of them bad
    assert not await is_open(drive)
    await drive.take()
    await ended(drive, retryable())
    assert await is_open(drive)


async def test_half_of_twenty_do_not(drive: Drive) -> None:
    await mixed(drive, 10, 10)
    assert not await is_open(drive)


async def test_what_is_older_than_30_s_does_not_count(drive: Drive) -> None:
    await mixed(drive, 9, 10)
    await drive.place.pass_time(30_000)
    await ended(drive, success())
    await ended(drive, retryable())
    assert not await is_open(drive)


async def test_a_handler_without_a_sign_of_life_counts(late: Drive) -> None:
    hands = [await late.running(**LONG | {"processing_ms": 20_000}) for _ in range(OPENS)]
    events = await late.live(25_000, renew=tuple(taken.hand for taken in hands))
    assert [event.what for event in events if event.what != "again"] == ["overdue"] * OPENS
    assert await is_open(late)


async def test_a_run_that_hangs_until_total_counts(late: Drive) -> None:
    for _ in range(OPENS):
        await late.running(total_ms=20_000)
    await late.place.pass_time(20_001)
    await late.backend.due(0)
    assert await is_open(late)


async def test_a_late_answer_of_a_run_that_hung_counts_once(late: Drive) -> None:
    for _ in range(OPENS - 1):
        taken = await late.running(total_ms=20_000)
        await late.place.pass_time(20_001)
        assert await late.settle(taken, retryable()) == "stale"
        await late.backend.due(0)
    assert not await is_open(late)
    await late.take()
    taken = await late.running(total_ms=20_000)
    await late.place.pass_time(20_001)
    assert await late.settle(taken, success()) == "stale"
    assert await is_open(late)


async def test_callers_in_a_hurry_say_nothing_of_the_agent(late: Drive) -> None:
    """Else one sender with short timeouts could keep any agent from everybody."""
    for _ in range(OPENS):
        await late.running(total_ms=8_000)
    await late.live(9_000)
    assert not await is_open(late)


async def test_what_senders_in_a_hurry_call_overdue_says_nothing_of_the_agent(late: Drive) -> None:
    hands = [await late.running(**LONG | {"processing_ms": 2_000}) for _ in range(OPENS)]
    events = await late.live(3_000, renew=tuple(taken.hand for taken in hands))
    assert [event.what for event in events if event.what != "again"] == ["overdue"] * OPENS
    assert not await is_open(late)


@pytest.mark.parametrize(("processing_ms", "opens"), [(2_000, False), (15_000, True)])
async def test_an_overdue_run_that_the_agent_ends_counts_unless_its_sender_was_in_a_hurry(
    drive: Drive, processing_ms: int, opens: bool
) -> None:
    """An agent that has declared less than its message allows ends its run by that."""
    for _ in range(OPENS):
        taken = await drive.running(**LONG | {"processing_ms": processing_ms})
        assert await drive.settle(taken, retryable("timeout.processing")) == "done"
    assert await is_open(drive) is opens


async def test_a_run_that_total_cuts_off_soon_after_its_start_says_nothing(late: Drive) -> None:
    for _ in range(OPENS):
        await late.sent(total_ms=8_000)
    await late.live(5_000)
    assert len(await late.take()) == OPENS
    await late.live(4_000)
    assert not await is_open(late)


async def test_a_run_that_shows_signs_of_life_until_total_says_nothing(late: Drive) -> None:
    hands = [await late.running(total_ms=8_000) for _ in range(OPENS)]
    await late.live(5_000)
    for taken in hands:
        assert await late.backend.progress(0, taken.msg_id, 0, taken.hand, None)
    await late.live(4_000)
    assert not await is_open(late)


# ---------------------------------------------------------------- a death


async def test_a_death_counts_once_however_much_was_in_hand(late: Drive) -> None:
    for _ in range(8):
        await late.sent(**LONG)
    assert len(await late.take()) == 8
    events = await late.live(17_500)
    assert [event.code for event in events if event.what == "reclaimed"] == ["agent.lost"] * 8
    await late.sent(**LONG)
    assert (await late.taken("i2")).attempt == 1


async def test_a_death_counts_among_the_failures(late: Drive) -> None:
    for _ in range(OPENS - 1):
        await ended(late, retryable())
    for _ in range(3):
        await late.running(**LONG)
    await late.live(17_500)
    assert await is_open(late)


async def test_who_dies_again_and_again_is_left_alone(late: Drive) -> None:
    for number in range(OPENS):
        await late.running(**LONG)
        assert not await is_open(late), number
        await late.take()
        await late.live(17_500)
    assert await is_open(late)


# ---------------------------------------------------------------- the key


async def test_it_lives_for_an_hour_after_the_last_write(drive: Drive) -> None:
    await opened(drive)
    assert 3_590_000 < await drive.place.ttl_ms(KEYS.health(0)) <= 3_600_000


async def test_it_is_gone_with_its_agent(drive: Drive) -> None:
    await drive.backend.open_inbox(0, "a2")
    await drive.sent(Plan("deliver", "a2"), **LONG)
    (taken,) = await drive.take(agent="a2")
    assert await drive.settle_as("a2", taken, success()) == "done"
    await opened(drive)
    assert await drive.backend.close_inbox(0, AGENT)
    await drive.backend.open_inbox(0, AGENT)
    assert not await is_open(drive)
    assert (await drive.backend.circuits(0)).are == {}
    assert await drive.backend.close_inbox(0, "a2")
    assert await drive.place.type_of(KEYS.health(0)) == "none"


async def test_a_lost_key_is_a_closed_circuit(drive: Drive) -> None:
    await opened(drive)
    await drive.place.delete(KEYS.health(0))
    assert not await is_open(drive)


async def test_a_key_of_the_wrong_type_stops_nothing_and_is_made_anew(drive: Drive) -> None:
    await opened(drive)
    await drive.place.spoil(KEYS.health(0))
    assert (await drive.backend.circuits(0)).are == {}
    assert not await is_open(drive)
    await drive.take()
    await opened(drive)
    assert await drive.place.type_of(KEYS.health(0)) == "hash"
    assert await is_open(drive)


async def test_a_step_back_of_the_clock_lets_the_probe_go_at_once(drive: Drive) -> None:
    await opened(drive)
    await drive.place.pass_time(-100_000)
    assert not await is_open(drive)
    assert await is_open(drive)
    assert await drive.settle(await drive.taken(), retryable()) == "done"
    assert 0 < (await tried(drive)).wait_ms <= OPEN_MS


# ---------------------------------------------------------------- telling of it


async def test_who_asks_hears_whose_circuit_is_open_and_why(drive: Drive) -> None:
    assert (await drive.backend.circuits(0)).are == {}
    await opened(drive)
    found = (await drive.backend.circuits(0)).are
    assert list(found) == ["a1/0"]
    assert b'"why":"5 failures in a row"' in found["a1/0"]


async def test_it_is_told_once_and_taken_back_once(drive: Drive) -> None:
    told, cursor = b'{"until_ms":1,"why":"x"}', (await drive.backend.snapshot()).cursor
    assert await drive.backend.tell_circuit("a1/0", told)
    assert not await drive.backend.tell_circuit("a1/0", told)
    assert (await drive.backend.snapshot()).circuits == {"a1/0": told}
    assert (await drive.backend.circuits(0)).told == {"a1/0": told}
    assert 3_590_000 < await drive.place.ttl_ms(KEYS.circuit()) <= 3_600_000
    assert await drive.backend.tell_circuit("a1/0", b"")
    assert not await drive.backend.tell_circuit("a1/0", b"")
    assert await drive.place.type_of(KEYS.circuit()) == "none"
    changes = await drive.backend.changes(cursor, 0)
    assert [(change.op, change.name, change.data) for change in changes] == [
        ("circuit", "a1/0", told),
        ("circuit", "a1/0", b""),
    ]


async def test_what_is_told_under_a_key_of_the_wrong_type_is_told(drive: Drive) -> None:
    await drive.place.spoil(KEYS.circuit())
    assert (await drive.backend.circuits(0)).told == {}
    assert await drive.backend.tell_circuit("a1/0", b"{}")
    assert (await drive.backend.snapshot()).circuits == {"a1/0": b"{}"}
