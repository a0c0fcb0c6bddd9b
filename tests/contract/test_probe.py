"""What an open circuit keeps from its agent, and the one probe."""

import pytest

from reach.backend.keys import GROUP_AGENT
from reach.backend.steps import Plan, Send
from reach.envelope.circuit import OPEN_MS
from reach.envelope.ledger import LegState
from tests.contract.asking import park
from tests.contract.drive import AGENT, ENVELOPE, TO_AGENT, Drive, head_of, new_id, retryable, success
from tests.contract.failing import LONG, OPENS, ended, is_open, opened, probing, tried
from tests.contract.places import KEYS


@pytest.fixture
async def late(drive: Drive) -> Drive:
    """A drive whose router has run for so long that no grace holds anything up."""
    await drive.past_grace()
    return drive


# ---------------------------------------------------------------- the probe


async def test_after_30_s_one_probe_goes_also_of_one_batch(drive: Drive) -> None:
    await opened(drive)
    await drive.place.pass_time(OPEN_MS - 2_000)
    assert await is_open(drive)
    await drive.place.pass_time(2_000)
    results = [await tried(drive) for _ in range(3)]
    assert [result.verdict for result in results] == ["done", "open", "open"]
    assert [result.wait_ms for result in results] == [0, 1_000, 1_000]
    assert len(await drive.inbox()) == 1


async def test_one_probe_goes_of_the_messages_of_one_call(drive: Drive) -> None:
    await opened(drive)
    await drive.place.pass_time(OPEN_MS)
    sends = []
    for _ in range(3):
        entry, msg_id = await drive.entry(), new_id()
        sends.append(Send(entry, msg_id, head_of(msg_id, **LONG), (TO_AGENT,), ENVELOPE))
    results = await drive.backend.route(0, sends)
    assert [result.verdict for result in results] == ["done", "open", "open"]


async def test_its_success_closes_the_circuit(drive: Drive) -> None:
    probe = await probing(drive)
    assert await is_open(drive)
    assert await drive.settle(probe, success()) == "done"
    assert [(await tried(drive)).verdict for _ in range(3)] == ["done"] * 3
    assert await drive.place.type_of(KEYS.health(0)) == "none"


async def test_one_that_asks_its_caller_closes_the_circuit_too(drive: Drive) -> None:
    probe = await probing(drive)
    assert await park(drive, probe) == "done"
    assert not await is_open(drive)


async def test_its_failure_opens_it_for_another_30_s(drive: Drive) -> None:
    probe = await probing(drive)
    await drive.place.pass_time(10_000)
    assert await drive.settle(probe, retryable()) == "done"
    assert OPEN_MS - 2_000 < (await tried(drive)).wait_ms <= OPEN_MS
    await drive.place.pass_time(OPEN_MS)
    assert not await is_open(drive)


async def test_only_the_probe_decides(drive: Drive) -> None:
    """Runs that had begun before it opened end as they like."""
    before = [await drive.running(**LONG) for _ in range(3)]
    probe = await probing(drive)
    assert await drive.settle(before[0], success()) == "done"
    assert await is_open(drive)
    assert await drive.settle(before[1], retryable()) == "done"
    assert await drive.settle(probe, success()) == "done"
    assert not await is_open(drive)


async def test_a_probe_whose_holder_dies_opens_it_again(late: Drive) -> None:
    await probing(late)
    await late.live(17_500)
    assert await is_open(late)
    await late.live(OPEN_MS - 15_000)
    assert await is_open(late)
    await late.live(17_500)
    assert not await is_open(late)


async def test_a_probe_that_was_not_taken_and_ends_makes_place_for_the_next(drive: Drive) -> None:
    await opened(drive)
    await drive.place.pass_time(OPEN_MS)
    msg_id = await drive.sent(**LONG)
    assert await is_open(drive)
    assert (await drive.backend.cancel(0, msg_id, "sender-1", 1, 0)).closed == 1
    assert not await is_open(drive)


async def test_a_probe_that_was_taken_and_ends_without_an_answer_makes_place_30_s_after_its_start(drive: Drive) -> None:
    probe = await probing(drive)
    assert (await drive.backend.cancel(0, probe.msg_id, "sender-1", 1, 0)).closed == 1
    assert await is_open(drive)
    await drive.place.pass_time(OPEN_MS)
    assert not await is_open(drive)


async def test_while_a_probe_runs_no_other_goes_however_long_that_is(late: Drive) -> None:
    probe = await probing(late)
    await late.live(5 * OPEN_MS, renew=(probe.hand,))
    assert (await tried(late)).wait_ms == 1_000
    assert await late.settle(probe, success()) == "done"
    assert not await is_open(late)


async def test_a_probe_whose_record_is_lost_makes_place(drive: Drive) -> None:
    probe = await probing(drive)
    await drive.place.delete(KEYS.message(0, probe.msg_id))
    await drive.place.pass_time(OPEN_MS)
    assert not await is_open(drive)


# ---------------------------------------------------------------- what lies in the inbox, and by which door it comes


async def test_what_lay_in_the_inbox_goes_back_and_burns_nothing(drive: Drive) -> None:
    queued = [await drive.sent(**LONG) for _ in range(3)]
    for _ in range(OPENS):  # of runs in the lane that is served first
        await drive.sent(lane="high", **LONG)
        (taken,) = await drive.take(free=1)
        assert await drive.settle(taken, retryable()) == "done"
    await drive.work()
    assert await drive.take() == []
    for msg_id in queued:
        leg = await drive.leg(msg_id)
        assert (leg.state, leg.attempt, leg.wait_ms) == (LegState.RETURNED, 0, 0)
        assert await drive.bytes_of(msg_id) == ENVELOPE
    assert {entry.fields[b"m"].decode() for entry in await drive.work("again")} == set(queued)
    assert await drive.inbox() == []
    assert await drive.place.pending(KEYS.inbox(0, AGENT, "normal"), GROUP_AGENT) == []


async def test_what_runs_already_comes_again_after_a_lost_connection(drive: Drive) -> None:
    taken = await drive.running(**LONG)
    await opened(drive)
    result = await drive.backend.take(0, AGENT, "i1", 10, [])
    assert [each.hand for each in result.taken] == [taken.hand]


async def test_a_retry_and_a_move_meet_it_too(late: Drive) -> None:
    drive = late
    await drive.backend.open_inbox(0, "a2")
    _, entry = await drive.returned("handler.error", **LONG)
    await drive.sent(Plan("deliver", "a2"), **LONG)
    for _ in range(OPENS - 1):
        await ended(drive, retryable())
    assert (await drive.decide(entry, TO_AGENT)).verdict == "open"
    assert (await drive.decide(entry, Plan("delay", wait_ms=1_000))).verdict == "done"
    await drive.work()
    await drive.live(4_000)
    (asked,) = [each for each in await drive.work("again") if (await drive.leg(_named(each.fields))).agent == "a2"]
    assert (await drive.decide(asked, Plan("move", AGENT))).verdict == "open"
    assert (await drive.leg(_named(asked.fields))).state is LegState.QUEUED


def _named(fields: dict[bytes, bytes]) -> str:
    return fields[b"m"].decode()


async def test_a_leg_of_a_broadcast_waits_and_the_others_go(drive: Drive) -> None:
    await drive.backend.open_inbox(0, "a2")
    await opened(drive)
    msg_id = await drive.sent(TO_AGENT, Plan("deliver", "a2"), scope="all", **LONG)
    assert [(await drive.leg(msg_id, n)).state for n in (0, 1)] == [LegState.WAITING, LegState.QUEUED]
    assert (await drive.leg(msg_id)).agent == AGENT


async def test_other_agents_are_not_touched(drive: Drive) -> None:
    await drive.backend.open_inbox(0, "a2")
    await opened(drive)
    assert (await tried(drive, Plan("deliver", "a2"))).verdict == "done"
    (taken,) = await drive.take(agent="a2")
    assert await drive.settle_as("a2", taken, success()) == "done"
    assert await is_open(drive)
