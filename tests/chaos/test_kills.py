"""The short kill run of every CI, and the long one of `make chaos`."""

import pytest

from reach.backend.private_server import PrivateServer
from tests.chaos import kill_run

LEFT = pytest.mark.leaves_work(
    why="the consumers of processes that were killed stay until the sweeper has not seen them for 10 minutes"
)


@LEFT
@pytest.mark.processes
@pytest.mark.timeout(120)
async def test_nothing_is_lost_and_nothing_runs_again_under_kills_and_cuts(server: PrivateServer) -> None:
    report = await kill_run.run(
        300, inflight=32, every_s=1.0, slack_ms=3_000, least_kills=6, to_the_end=False, server=server
    )
    print(report)
    assert report.kills >= 6
    assert report.cuts
    assert not report.broken, str(report)


@LEFT
@pytest.mark.long
@pytest.mark.processes
@pytest.mark.timeout(1500)
async def test_20000_messages_under_kills_every_2_s_and_cuts_every_second(server: PrivateServer) -> None:
    report = await kill_run.run(20_000, least_kills=20, server=server)
    print(report)
    assert report.kills >= 20
    assert not report.broken, str(report)
    assert not report.unseen, str(report)
