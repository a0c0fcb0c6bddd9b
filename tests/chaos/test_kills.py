"""The short kill run of every CI, and the long one of `make chaos`."""

import pytest

from reach.backend.private_server import PrivateServer
from tests.chaos import kill_run


@pytest.mark.processes
@pytest.mark.timeout(120)
async def test_nothing_is_lost_and_nothing_runs_again_under_kills(server: PrivateServer) -> None:
    report = await kill_run.run(400, inflight=32, every_s=1.0, slack_ms=3_000, least_kills=8, server=server)
    print(report)
    assert report.kills >= 8
    assert not report.broken, str(report)


@pytest.mark.long
@pytest.mark.processes
@pytest.mark.timeout(900)
async def test_5000_requests_under_kills_every_2_s(server: PrivateServer) -> None:
    report = await kill_run.run(5000, least_kills=20, server=server)
    print(report)
    assert report.kills >= 20
    assert not report.broken, str(report)
    assert not report.unseen, str(report)
