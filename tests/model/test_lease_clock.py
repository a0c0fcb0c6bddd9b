"""The lease in seconds: with all guards nobody loses work, and what a dead holder leaves is taken over in time."""

import pytest

from tests.model.explorer import Report, explore
from tests.model.guards import Guard
from tests.model.lease_clock import ALL, GUARDS, PAIR, SCENARIOS, LeaseClock, Setting


def without(case: str, off: frozenset[str]) -> Report:
    setting = next(setting for setting in SCENARIOS if setting.name == case)
    return explore(LeaseClock(setting._replace(guards=ALL - off)), until=bool)


@pytest.mark.parametrize("setting", SCENARIOS, ids=lambda setting: setting.name)
def test_no_promise_is_broken(setting: Setting) -> None:
    report = explore(LeaseClock(setting))
    print(report)
    assert not report.broken, str(report)
    assert report.complete


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.name)
def test_without_a_guard_a_promise_is_broken(guard: Guard) -> None:
    report = without(guard.case, frozenset({guard.name}))
    print(report)
    assert report.broken


def test_one_of_two_guards_cuts_a_grace_that_a_jump_has_made_longer() -> None:
    report = without("a jump in a grace", PAIR)
    print(report)
    assert report.broken
