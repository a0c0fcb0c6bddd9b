"""Who beats whenever it can stays, and who is dead goes; without any one guard it is not so."""

import pytest

from tests.model.explorer import explore
from tests.model.guards import Guard
from tests.model.silence import ALL, GUARDS, Setting, Silence


def test_no_promise_is_broken() -> None:
    report = explore(Silence(Setting()))
    print(report)
    assert not report.broken, str(report)
    assert report.complete


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.name)
def test_without_a_guard_a_promise_is_broken(guard: Guard) -> None:
    report = explore(Silence(Setting(faults=guard.faults, guards=ALL - {guard.name})), until=bool)
    print(report)
    assert report.broken
