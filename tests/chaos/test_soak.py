"""The soak: 10 minutes under `make chaos`. What its verdict is made of is tried here on series made by hand."""

import pytest

from reach.backend.private_server import PrivateServer
from tests.chaos import soak


def series(name: str, *thirds: float) -> soak.Soaked:
    """Three measurements in each third, after those of the warm-up."""
    made = soak.Soaked(600, 40)
    made.add(name, 0.0, 1.0)
    for n, value in enumerate(value for value in thirds for _ in range(3)):
        made.add(name, soak.WARM_S + n, value)
    return made


@pytest.mark.parametrize(
    ("name", "thirds", "grown"),
    [
        ("rss_kb client", (10_000, 40_000, 43_000), False),
        ("rss_kb client", (40_000, 40_000, 43_100), True),
        ("used_memory", (7_000_000, 7_000_000, 7_600_000), False),
        ("used_memory", (7_000_000, 7_000_000, 7_700_000), True),
        ("keys", (2_700, 2_700, 2_870), False),
        ("keys", (2_700, 2_700, 2_880), True),
        ("tasks client", (10, 10, 14), False),
        ("tasks client", (10, 10, 15), True),
        ("consumers", (14, 14, 19), True),
        ("descriptors router-1", (20, 20, 26), True),
        ("changes", (9_000, 9_900, 10_050), False),
        ("changes", (9_000, 9_900, 10_200), True),
    ],
)
def test_the_verdict_on_a_series(name: str, thirds: tuple[float, ...], grown: bool) -> None:
    assert bool(series(name, *thirds).grown()) is grown


def test_too_little_to_judge_is_no_good_verdict() -> None:
    short = soak.Soaked(60, 40)
    short.add("keys", 1.0, 20)
    assert short.grown() == ["keys: too few measurements"]


@pytest.mark.long
@pytest.mark.processes
@pytest.mark.timeout(1000)
async def test_nothing_grows_in_ten_minutes(server: PrivateServer) -> None:
    soaked = await soak.run(600, 40, server)
    print(soaked)
    assert not soaked.left, str(soaked)
    assert not soaked.grown(), str(soaked)
