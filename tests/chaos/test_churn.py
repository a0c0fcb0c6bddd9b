"""Agents come and go under load: a few of them in the suite, 50 a second for a minute under `make chaos`."""

import pytest

from reach.backend.private_server import PrivateServer
from tests.chaos.churn import Churn, Guest, churned

FEW, MANY, A_SECOND = 25, 3_000, 50.0


async def test_who_comes_and_goes_under_load_is_reached_once_and_leaves_nothing(server: PrivateServer) -> None:
    churn = await churned(server.url, FEW)
    assert (churn.came, churn.left) == (FEW, FEW)
    assert churn.over > 2
    assert churn.requests
    assert not churn.faults, "\n".join(churn.faults[:20])


@pytest.mark.long
@pytest.mark.timeout(400)
async def test_3000_come_and_3000_go_in_a_minute(server: PrivateServer) -> None:
    churn = await churned(server.url, MANY, A_SECOND)
    assert (churn.came, churn.left) == (MANY, MANY)
    assert not churn.faults, "\n".join(churn.faults[:20])


@pytest.mark.parametrize(
    ("heard", "wrong"),
    [
        ({3: 1, 4: 1}, False),
        ({3: 1}, True),
        ({3: 1, 4: 2}, True),
        ({2: 1, 3: 1, 4: 1}, False),
        ({2: 2, 3: 1, 4: 1}, True),
    ],
)
def test_the_verdict_on_a_guest(heard: dict[int, int], wrong: bool) -> None:
    """It was known to both routers before broadcast 3, and left after broadcast 4."""
    churn, guest = Churn("redis://nowhere"), Guest("guest")
    guest.since, guest.until = 3, 5
    guest.heard.update(heard)
    churn.guests.append(guest)
    churn.judge()
    assert bool(churn.faults) is wrong
