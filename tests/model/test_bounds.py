"""Share and rate: with all guards every bound holds and nobody is held up for ever; without one of them something breaks."""

import pytest

from tests.model.bounds import ALL, GUARDS, Rate, Share
from tests.model.explorer import explore
from tests.model.guards import Guard


def test_no_share_is_broken() -> None:
    report = explore(Share())
    print(report)
    assert not report.broken, str(report)
    assert report.complete


def test_no_rate_limit_is_broken() -> None:
    report = explore(Rate())
    print(report)
    assert not report.broken, str(report)
    assert report.complete


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.name)
def test_without_a_guard_a_promise_is_broken(guard: Guard) -> None:
    left = ALL - {guard.name}
    report = explore(Share(left), until=bool) if guard.case == "share" else explore(Rate(left), until=bool)
    print(report)
    assert report.broken
