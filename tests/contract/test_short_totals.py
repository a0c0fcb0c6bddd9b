"""A caller who waits no longer than somebody is looked for hears of it."""

import pytest

from reach.backend.steps import Plan
from tests.contract.drive import Drive


@pytest.mark.parametrize(
    ("network_ms", "said"),
    [
        (5_000, "nobody was found within total_ms, which is no longer than network_ms"),
        (4_999, "the total time is over"),
    ],
)
async def test_a_total_that_is_too_short_to_look_for_somebody_says_so(drive: Drive, network_ms: int, said: str) -> None:
    await drive.sent(Plan("delay", wait_ms=60_000), total_ms=5_000, network_ms=network_ms)
    await drive.place.pass_time(5_001)
    await drive.backend.due(0)
    receipt = await drive.receipt()
    assert (receipt["code"], receipt["error_message"]) == ("timeout.total", said)
