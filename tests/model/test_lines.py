"""The line, explored: with all guards no promise is broken; without any one of them the explorer finds how one is."""

import pytest

from tests.model.explorer import Report, explore
from tests.model.guards import Guard
from tests.model.lines import ALL, BY_NAME, GUARDS, SCENARIOS, Lines, Setting

#: what a leg of a broadcast, or one without a line, never does
HELD = {(before, "held") for before in ("new", "returned", "waiting")}
HELD |= {("held", after) for after in ("queued", "waiting", "done", "cancelled", "expired")}


def without(guard: Guard) -> Report:
    setting = BY_NAME[guard.case]._replace(faults=guard.faults, guards=ALL - {guard.name})
    return explore(Lines(setting), until=bool)


@pytest.mark.parametrize("setting", SCENARIOS, ids=lambda setting: setting.name)
def test_no_promise_is_broken(setting: Setting) -> None:
    lines = Lines(setting._replace(faults=min(setting.faults, 2) if setting.messages == 2 else 1))
    report = explore(lines)
    print(report)
    assert not report.broken, str(report)
    assert report.complete


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.name)
def test_without_a_guard_a_promise_is_broken(guard: Guard) -> None:
    report = without(guard)
    print(report)
    assert report.broken


def test_every_transition_to_and_from_held_is_made() -> None:
    made: set[tuple[str, str]] = set()
    for setting in SCENARIOS:
        lines = Lines(setting._replace(faults=2, messages=2))
        explore(lines)
        made |= lines.made
    assert HELD - made == set()


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("setting", SCENARIOS, ids=lambda setting: setting.name)
def test_no_promise_is_broken_by_more_faults(setting: Setting) -> None:
    report = explore(Lines(setting))
    print(report)
    assert not report.broken, str(report)
    assert report.complete
