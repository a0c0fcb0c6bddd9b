"""Whoever watches is down, slow or refuses: requests succeed all the same, and each batch of records is kept once or counted in a gap."""

import pytest

from reach.backend.private_server import PrivateServer
from tests.chaos.observers_down import Observers, Unread, order, parts_of, watched

A_PART, A_CALL, BOUND = 25, 1, 10


@pytest.mark.processes
@pytest.mark.leaves_work(why="the archivers' group stays, as in life")
async def test_observers_that_are_away_cost_no_request_and_what_is_lost_is_counted(server: PrivateServer) -> None:
    unread = Unread(server.url)

    def over(asked: int, _: float, observers: Observers) -> bool:
        """So many requests, in a bad part a call that was disturbed, and in the first of them something that retention took unread."""
        enough = asked >= A_PART and (observers.mode == "up" or observers.disturbed >= A_CALL)
        return enough and (observers.mode != "cut" or unread.is_lost())

    observers = await watched(server.url, over, BOUND)
    assert not observers.faults, "\n".join(observers.faults)
    assert observers.asked >= 7 * A_PART
    assert observers.gaps
    assert observers.server.documents


def test_each_bad_window_is_weighed_against_the_good_ones_around_it() -> None:
    assert order(2) == ["up", "cut", "up", "slow", "up", "refusing", "up", "cut", "up", "slow", "up", "refusing", "up"]
    rates = [("up", 100.0), ("cut", 90.0), ("up", 80.0), ("slow", 40.0), ("up", 80.0), ("cut", 30.0), ("up", 40.0)]
    assert parts_of(rates) == {"cut": [1.0, 0.5], "slow": [0.5]}
