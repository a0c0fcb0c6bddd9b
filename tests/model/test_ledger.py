"""The ledger, explored: with all guards no promise is broken; without any one of them the explorer finds how one is."""

import pytest

from reach.delivery.states import TRANSITIONS
from tests.model.__main__ import deepen, without
from tests.model.explorer import explore
from tests.model.guards import GUARDS, Guard
from tests.model.ledger import Ledger
from tests.model.partition import Setting
from tests.model.scenarios import BY_NAME, SCENARIOS

#: transitions of the table that this model does not make: those of lines and of stages are test_lines' and test_stages' own
NOT_YET = {
    ("new", "held"),
    ("new", "observed"),
    ("held", "queued"),
    ("held", "waiting"),
    ("held", "done"),
    ("held", "cancelled"),
    ("held", "expired"),
    ("returned", "held"),
    ("waiting", "held"),
}


@pytest.mark.parametrize("setting", SCENARIOS, ids=lambda setting: setting.name)
def test_no_promise_is_broken(setting: Setting) -> None:
    ledger = Ledger(setting)
    report = explore(ledger)
    print(report)
    assert not report.broken, str(report)
    assert report.complete


def test_every_transition_of_the_table_is_made() -> None:
    made: set[tuple[str, str]] = set()
    table = {(before.value, after.value) for before, later in TRANSITIONS.items() for after in later}
    for name in ("agents", "moves", "cancel", "expiry", "keys lost", "broadcast gone", "questions"):
        ledger = Ledger(BY_NAME[name]._replace(faults=2))
        explore(ledger)
        made.update(ledger.made)
    best = Ledger(
        BY_NAME["best questions"]
    )  # it takes all three: one that is not sure, one that asks, nobody that answers
    explore(best)
    made.update(best.made)
    assert table - made == NOT_YET


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.name)
def test_without_a_guard_a_promise_is_broken(guard: Guard) -> None:
    report = without(guard.name)
    print(report)
    assert report.broken


@pytest.mark.long
@pytest.mark.timeout(900)
def test_more_and_more_faults_for_5_minutes() -> None:
    assert deepen(300, 100_000_000) == 0
