"""The guard of an effect: with all of it the effect is made once; without any one part it is not, or somebody waits for ever."""

import pytest

from tests.model.explorer import explore
from tests.model.guards import Guard
from tests.model.once_guard import ALL, GUARDS, SCENARIOS, OnceGuard, Setting


@pytest.mark.parametrize("setting", SCENARIOS, ids=lambda setting: setting.name)
def test_no_promise_is_broken(setting: Setting) -> None:
    report = explore(OnceGuard(setting))
    print(report)
    assert not report.broken, str(report)
    assert report.complete


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.name)
def test_without_a_guard_a_promise_is_broken(guard: Guard) -> None:
    setting = next(setting for setting in SCENARIOS if setting.name == guard.case)
    report = explore(OnceGuard(setting._replace(faults=guard.faults, guards=ALL - {guard.name})), until=bool)
    print(report)
    assert report.broken
