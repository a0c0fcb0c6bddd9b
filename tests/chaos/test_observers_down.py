"""Whoever watches is down, slow or refuses: requests succeed all the same, and each batch of records is kept once or counted in a gap."""

import pytest

from reach.backend.private_server import PrivateServer
from tests.chaos.observers_down import Observers, watched

A_PART, A_CALL, BOUND = 25, 1, 10


def _over(asked: int, _: float, observers: Observers) -> bool:
    """So many requests, and in a bad part at least one call that was disturbed."""
    return asked >= A_PART and (observers.mode == "up" or observers.disturbed >= A_CALL)


@pytest.mark.processes
@pytest.mark.leaves_work(why="the archivers' group stays, as in life")
async def test_observers_that_are_away_cost_no_request_and_what_is_lost_is_counted(server: PrivateServer) -> None:
    observers = await watched(server.url, _over, BOUND)
    assert not observers.faults, "\n".join(observers.faults)
    assert observers.asked >= 7 * A_PART
    assert observers.gaps
    assert observers.server.documents
