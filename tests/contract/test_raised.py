"""A slower agent gets a message after a wait, a retry or a move: its timeouts rise, and who waits is told."""

from typing import Any

import pytest

from reach.backend.steps import Plan
from tests.contract.drive import AGENT, TO_AGENT, Drive, success
from tests.contract.places import KEYS

SLOW = {"processing_ms": 60_000, "total_ms": 75_000}


@pytest.fixture
async def late(drive: Drive) -> Drive:
    await drive.past_grace()
    return drive


async def moments(drive: Drive, msg_id: str) -> tuple[int, int, int]:
    head = await drive.head(msg_id)
    return head.processing_ms, head.total_ms, head.total_at_ms - head.accepted_at_ms


async def told(drive: Drive) -> list[tuple[str, int, int]]:
    """Of the `routed` notices that are new: the agent, processing and total."""
    notices = await drive.notices()
    return [(each["legs"][0]["agent"], each["processing_ms"], each["total_ms"]) for each in notices]


async def test_a_retry_with_a_slower_agent_raises_processing_and_total_and_tells_it(drive: Drive) -> None:
    msg_id, entry = await drive.returned(notice="")
    await drive.decide(entry, TO_AGENT, **SLOW)
    assert await moments(drive, msg_id) == (60_000, 75_000, 75_000)
    assert await told(drive) == [(AGENT, 60_000, 75_000)]
    taken = await drive.taken()
    assert (taken.processing_ms, taken.total_at_ms) == (60_000, (await drive.head(msg_id)).total_at_ms)
    ((_, entry_fields),) = await drive.inbox()
    assert entry_fields[b"x"] == str(taken.total_at_ms).encode()


async def test_a_move_to_a_slower_agent_raises_them_too(late: Drive) -> None:
    await late.backend.open_inbox(0, "a2")
    msg_id = await late.sent(notice="")
    await late.live(4_000)
    await late.decide(await late.asked_again(), Plan("move", "a2"), **SLOW)
    assert await moments(late, msg_id) == (60_000, 75_000, 75_000)
    assert await told(late) == [("a2", 60_000, 75_000)]


async def test_an_agent_that_appears_while_it_waits_raises_them_too(late: Drive) -> None:
    msg_id = await late.sent(Plan("delay", wait_ms=1_000), notice="")
    await late.live(1_001)
    await late.decide(await late.asked_again(), TO_AGENT, **SLOW)
    assert await moments(late, msg_id) == (60_000, 75_000, 75_000)
    assert await told(late) == [(AGENT, 60_000, 75_000)]


async def test_everybody_who_waits_is_told(drive: Drive) -> None:
    msg_id, entry = await drive.returned(notice="")
    await drive.keep_box("other")
    await drive.sent(msg_id=msg_id, reply_to="other", notice="")
    await drive.mail(), await drive.mail("other")
    await drive.decide(entry, TO_AGENT, **SLOW)
    assert [each["total_ms"] for box in ("box", "other") for each in await drive.notices(box)] == [75_000, 75_000]


async def test_the_new_total_is_the_one_that_ends_it(late: Drive) -> None:
    _, entry = await late.returned(notice="")
    await late.decide(entry, TO_AGENT, **SLOW)
    taken = await late.taken()
    await late.live(50_000, renew=(taken.hand,))
    assert await late.receipts() == []
    assert await late.settle(taken, success()) == "done"


async def test_what_is_no_more_than_there_is_changes_nothing_and_tells_nobody(drive: Drive) -> None:
    msg_id, entry = await drive.returned(notice="", processing_ms=60_000, total_ms=80_000)
    await drive.decide(entry, TO_AGENT, **SLOW)
    assert await moments(drive, msg_id) == (60_000, 80_000, 80_000)
    assert await told(drive) == []


async def test_processing_alone_may_rise(drive: Drive) -> None:
    """The sender has set its total."""
    msg_id, entry = await drive.returned(notice="", total_ms=20_000)
    await drive.decide(entry, TO_AGENT, processing_ms=60_000)
    assert await moments(drive, msg_id) == (60_000, 20_000, 20_000)
    assert await told(drive) == [(AGENT, 60_000, 20_000)]


async def test_a_total_that_is_over_is_not_raised_any_more(late: Drive) -> None:
    """The decision was made just before: nothing is handed over after its time."""
    msg_id, entry = await late.returned(notice="", total_ms=5_000)
    await late.place.pass_time(6_000)
    await late.decide(entry, TO_AGENT, **SLOW)
    assert await moments(late, msg_id) == (15_000, 5_000, 5_000)
    assert await late.take() == []
    assert (await late.receipt())["code"] == "timeout.total"


async def test_the_bytes_of_a_large_broadcast_live_as_long_as_its_new_total(drive: Drive) -> None:
    await drive.backend.open_inbox(0, "a2")
    large = b'"' + b"x" * 40_000 + b'"'
    long: dict[str, Any] = {"processing_ms": 3_000_000, "total_ms": 3_000_000}
    msg_id = await drive.sent(Plan("delay", AGENT), Plan("deliver", "a2"), scope="all", envelope=large, notice="")
    await drive.place.pass_time(10)
    await drive.backend.due(0)
    await drive.decide(await drive.asked_again(), TO_AGENT, **long)
    record, env = KEYS.message(0, msg_id), KEYS.envelope(0, msg_id)
    assert abs(await drive.place.ttl_ms(env) - await drive.place.ttl_ms(record)) < 2_000
