"""What comes back without having burnt an attempt: it is counted, so that its pace can be bounded."""

import pytest

from tests.contract.drive import AGENT, TO_AGENT, Drive, retryable


async def come_back(drive: Drive, code: str = "handler.retry", wait_ms: int = 0) -> None:
    """Run what lies in the inbox; it returns, and is put there again."""
    assert await drive.settle(await drive.taken(), retryable(code), wait_ms=wait_ms) == "done"
    await drive.decide(await drive.asked_again(), TO_AGENT)


async def test_returns_that_burn_none_are_counted(drive: Drive) -> None:
    msg_id = await drive.sent()
    for _ in range(3):
        await come_back(drive)
    leg = await drive.leg(msg_id)
    assert (leg.returns, leg.attempt, leg.tried) == (3, 0, ())


async def test_a_run_that_burns_one_begins_the_count_anew(drive: Drive) -> None:
    msg_id = await drive.sent()
    await come_back(drive)
    await come_back(drive, "handler.error", -1)
    await come_back(drive)
    leg = await drive.leg(msg_id)
    assert (leg.returns, leg.attempt) == (1, 1)


@pytest.mark.parametrize("wait_ms", [-1, 0])
async def test_a_failed_probe_burns_none_and_another_agent_comes_first(drive: Drive, wait_ms: int) -> None:
    """Nothing has run, whatever the agent says of waiting."""
    msg_id = await drive.sent()
    for _ in range(2):
        await come_back(drive, "probe.failed", wait_ms)
    leg = await drive.leg(msg_id)
    assert (leg.attempt, leg.returns, leg.tried, leg.history) == (0, 2, (AGENT,), ())


async def test_a_failed_probe_of_a_plain_agent_burns_none_either(drive: Drive) -> None:
    msg_id = await drive.sent()
    taken = await drive.taken()
    await drive.settle(taken, retryable("probe.failed"), instance="")
    leg = await drive.leg(msg_id)
    assert (leg.attempt, leg.wait_ms) == (0, 0)
