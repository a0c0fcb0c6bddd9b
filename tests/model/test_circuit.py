"""Circuits: with all guards every promise is kept; without any one of them the explorer finds how one is broken."""

import pytest

from tests.model.circuit import ALL, GUARDS, SCENARIOS, Case, Circuit
from tests.model.explorer import explore
from tests.model.guards import Guard


@pytest.mark.parametrize("case", SCENARIOS, ids=lambda case: case.name)
def test_no_promise_is_broken(case: Case) -> None:
    report = explore(Circuit(case))
    print(report)
    assert not report.broken, str(report)
    assert report.complete


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.name)
def test_without_a_guard_a_promise_is_broken(guard: Guard) -> None:
    case = next(case for case in SCENARIOS if case.name == guard.case)
    report = explore(Circuit(case._replace(guards=ALL - {guard.name}, faults=guard.faults)))
    print(report)
    assert report.broken
