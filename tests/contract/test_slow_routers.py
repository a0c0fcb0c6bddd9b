"""due, run by routers that come late: each pause may be an outage, and still nobody's work may be kept by a dead holder."""

from reach.backend.steps import DueEvent
from tests.contract.drive import Drive

SLOW_MS = 4_000  # longer than a router that lives takes, and no outage


async def test_a_slow_router_begins_no_grace_within_30_seconds_of_the_last(drive: Drive) -> None:
    await drive.past_grace()  # it began 16 s ago
    await drive.place.pass_time(SLOW_MS)
    report = await drive.backend.due(0)
    assert report.grace_until_ms <= report.now_ms
    await drive.live(12_000)
    await drive.place.pass_time(SLOW_MS)
    report = await drive.backend.due(0)
    assert report.grace_until_ms == report.now_ms + 15_000


async def test_where_routers_are_always_slow_a_dead_holder_still_loses_its_work(drive: Drive) -> None:
    await drive.running(processing_ms=90_000, total_ms=200_000, ttl_ms=200_000)
    events: list[DueEvent] = []
    for _ in range(12):
        await drive.place.pass_time(SLOW_MS)
        events += (await drive.backend.due(0)).events
    assert [event.what for event in events if event.what != "again"] == ["reclaimed"]
