"""Who waits for room: with all guards nobody is passed and no room lies idle; without one of them something breaks."""

import pytest

from tests.model.explorer import explore
from tests.model.guards import Guard
from tests.model.rooms import ALL, GUARDS, Rooms


def test_nobody_is_passed_and_no_room_lies_idle() -> None:
    report = explore(Rooms())
    print(report)
    assert not report.broken, str(report)
    assert report.complete


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.name)
def test_without_a_guard_a_promise_is_broken(guard: Guard) -> None:
    report = explore(Rooms(ALL - {guard.name}), until=bool)
    print(report)
    assert report.broken
