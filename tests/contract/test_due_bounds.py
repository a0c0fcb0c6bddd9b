"""due: one call does so much and no more, so that it holds up nobody."""

from reach.backend.steps import Plan
from tests.contract.drive import AGENT, Drive


async def test_one_call_does_so_much_and_no_more(drive: Drive) -> None:
    for _ in range(4):
        await drive.sent(*[Plan("delay", AGENT, wait_ms=1_000)] * 300, scope="all", reply_to="", total_ms=2_000)
    await drive.place.pass_time(2_001)
    reports = [await drive.backend.due(0) for _ in range(4)]
    assert [(len(report.events), report.more) for report in reports] == [
        (500, True),
        (500, True),
        (200, False),
        (0, False),
    ]
    assert await drive.place.due() == {}


async def test_one_call_looks_at_so_many_legs_and_no_more(drive: Drive) -> None:
    """Of each broadcast only one leg is due, but each leg has to be looked at."""
    later = [Plan("delay", f"a{number}", wait_ms=20_000) for number in range(7_999)]
    for _ in range(4):
        await drive.sent(Plan("delay", "x", wait_ms=0), *later, scope="all", reply_to="")
    reports = [await drive.backend.due(0) for _ in range(3)]
    assert [(len(report.events), report.more) for report in reports] == [(3, True), (1, False), (0, False)]
