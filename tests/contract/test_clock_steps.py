"""The clock of Redis steps back: what was written before lies in the future, and holds nothing up for longer than a step of 15 s."""

import pytest

from reach.backend.keys import GROUP_AGENT, GROUP_ROUTERS
from reach.backend.steps import Plan
from reach.envelope.ledger import LegState
from tests.contract.drive import AGENT, Drive, success
from tests.contract.places import KEYS

INBOX = KEYS.inbox(0, AGENT, "normal")
BACK_MS = -60_000
LONG = {"processing_ms": 300_000, "ttl_ms": 300_000, "total_ms": 300_000}
#: a step is seen by the next `due`, what is far ahead is looked at 15 s later, and its lease is over after 15 s more
TAKEN_OVER_MS = 34_000


@pytest.fixture
async def late(drive: Drive) -> Drive:
    """A drive whose router has run for so long that no grace holds anything up."""
    await drive.past_grace()
    return drive


async def test_what_was_delivered_in_the_future_is_idle_0(late: Drive) -> None:
    """What the others build on."""
    await late.running(**LONG)
    await late.place.pass_time(9_000)
    await late.place.pass_time(-20_000)
    await late.place.pass_time(10_000)
    (row,) = await late.place.pending(INBOX, GROUP_AGENT)
    assert row.idle_ms == 0
    await late.place.pass_time(3_000)
    (row,) = await late.place.pending(INBOX, GROUP_AGENT)
    assert 0 < row.idle_ms <= 4_000


@pytest.mark.parametrize("lived_ms", [0, 4_000, 12_000])
async def test_a_dead_holder_loses_its_work_no_later_for_it(late: Drive, lived_ms: int) -> None:
    taken = await late.running(**LONG)
    assert await late.live(lived_ms, renew=(taken.hand,)) == []
    await late.place.pass_time(BACK_MS)
    events = await late.live(TAKEN_OVER_MS)
    assert [(event.what, event.code, event.instance) for event in events if event.what != "again"] == [
        ("reclaimed", "agent.lost", "i1")
    ]
    assert (await late.leg(taken.msg_id)).state is LegState.RETURNED


async def test_one_whose_handler_showed_life_before_the_step_loses_it_too(late: Drive) -> None:
    """Its run lies in the past, its renewal in the future."""
    taken = await late.running(**LONG)
    await late.live(20_000, renew=(taken.hand,))
    await late.place.pass_time(-10_000)
    events = await late.live(TAKEN_OVER_MS)
    assert "reclaimed" in {event.what for event in events}


async def test_a_live_holder_keeps_its_work(late: Drive) -> None:
    taken = await late.running(**LONG)
    await late.live(6_000, renew=(taken.hand,))
    await late.place.pass_time(BACK_MS)
    assert await late.live(80_000, renew=(taken.hand,)) == []
    assert await late.settle(taken, success()) == "done"


async def test_a_plain_reader_that_dies_loses_its_work_no_later_either(late: Drive) -> None:
    await late.sent(**LONG)
    await late.place.read_plain(INBOX, GROUP_AGENT, "plain-1")
    await late.live(5_000)
    await late.place.pass_time(BACK_MS)
    events = await late.live(TAKEN_OVER_MS)
    assert ("reclaimed", "plain-1") in {(event.what, event.instance) for event in events}


async def test_no_sign_of_life_ends_the_run_no_later_for_it(late: Drive) -> None:
    """The handler hangs while its agent renews: its last sign of life lies in the future."""
    taken = await late.running(**LONG | {"processing_ms": 30_000})
    await late.place.pass_time(BACK_MS)
    events = await late.live(50_000, renew=(taken.hand,))
    assert [event.code for event in events] == ["timeout.processing"]


async def test_a_leg_of_a_broadcast_is_looked_at_although_another_one_is_due_first(late: Drive) -> None:
    await late.sent(Plan("deliver", AGENT), Plan("delay", "a2", wait_ms=1_000), scope="all", **LONG)
    await late.taken()
    await late.live(5_000)
    await late.place.pass_time(BACK_MS)
    events = await late.live(TAKEN_OVER_MS)
    assert [(event.leg, event.what) for event in events if event.what == "reclaimed"] == [(0, "reclaimed")]


async def test_a_wait_and_a_network_time_end_no_earlier_for_it(late: Drive) -> None:
    """They are looked at, and put back where they were."""
    waiting = await late.sent(Plan("delay", wait_ms=100_000), **LONG)
    queued = await late.sent(network_ms=100_000, **LONG)
    await late.place.pass_time(-30_000)
    assert await late.live(100_000) == []
    assert set(await late.place.due()) == {waiting, queued}
    events = await late.live(50_000)
    assert {(event.msg_id, event.what) for event in events} == {(waiting, "again"), (queued, "again")}


async def test_what_a_dead_router_had_read_is_claimed_no_later_for_it(late: Drive) -> None:
    entry = await late.entry()
    await late.place.pass_time(BACK_MS)
    await late.backend.due(0)
    await late.place.pass_time(6_000)
    (claimed,) = await late.backend.claim_work("router-2", 0, 5_000)
    assert claimed.id == entry.id
    (row,) = await late.place.pending(KEYS.ingress(0, "normal"), GROUP_ROUTERS)
    assert row.consumer == "router-2"


async def test_one_call_lowers_so_many_moments_and_no_more(late: Drive) -> None:
    messages = [await late.sent(Plan("delay", wait_ms=100_000), reply_to="", **LONG) for _ in range(1_100)]
    await late.place.pass_time(BACK_MS)
    far = []
    for more in (True, False):
        report = await late.backend.due(0)
        assert report.more is more
        limit_ms = report.now_ms + 15_000
        far.append(sum(at_ms > limit_ms for at_ms in (await late.place.due()).values()))
    assert far == [100, 0]
    assert len(await late.place.due()) == len(messages)
    assert (await late.backend.due(0)).more is False


# ---------------------------------------------------------------- without any step


async def test_a_holder_that_dies_within_a_long_network_time_is_seen_all_the_same(late: Drive) -> None:
    await late.running(network_ms=200_000, **LONG)
    events = await late.live(17_500)
    assert [(event.what, event.code) for event in events] == [("reclaimed", "agent.lost")]
