"""Stages, explored: with all guards no promise is broken; without any one of them the explorer finds how one is."""

import pytest

from tests.model.explorer import explore
from tests.model.guards import Guard
from tests.model.stages import ALL, BY_NAME, GUARDS, SCENARIOS, Setting, Stages

#: what only a leg of a broadcast in stages does
OWN = {("new", "held"), ("new", "observed")} | {
    ("held", after) for after in ("queued", "waiting", "done", "cancelled", "expired")
}


@pytest.mark.parametrize("setting", SCENARIOS, ids=lambda setting: setting.name)
def test_no_promise_is_broken(setting: Setting) -> None:
    report = explore(Stages(setting._replace(faults=min(setting.faults, 3))))
    print(report)
    assert not report.broken, str(report)
    assert report.complete


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.name)
def test_without_a_guard_a_promise_is_broken(guard: Guard) -> None:
    setting = BY_NAME[guard.case]._replace(faults=guard.faults, guards=ALL - {guard.name})
    report = explore(Stages(setting), until=bool)
    print(report)
    assert report.broken


def test_every_transition_to_and_from_held_is_made() -> None:
    made: set[tuple[str, str]] = set()
    for setting in SCENARIOS:
        stages = Stages(setting._replace(faults=2))
        explore(stages)
        made |= stages.made
    assert OWN - made == set()


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("setting", SCENARIOS, ids=lambda setting: setting.name)
def test_no_promise_is_broken_by_more_faults(setting: Setting) -> None:
    report = explore(Stages(setting._replace(faults=setting.faults + 1)))
    print(report)
    assert not report.broken, str(report)
    assert report.complete
