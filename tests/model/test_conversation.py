"""Conversations: with all guards nobody is refused for honest work, and without one of them somebody is, or something never ends."""

import pytest

from tests.model.conversation import ALL, GUARDS, SCENARIOS, Conversation, Plot
from tests.model.explorer import explore
from tests.model.guards import Guard


@pytest.mark.parametrize("plot", SCENARIOS, ids=lambda plot: plot.name)
def test_no_promise_is_broken(plot: Plot) -> None:
    report = explore(Conversation(plot))
    print(report)
    assert not report.broken, str(report)
    assert report.complete


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.name)
def test_without_a_guard_a_promise_is_broken(guard: Guard) -> None:
    plot = next(plot for plot in SCENARIOS if plot.name == guard.case)
    report = explore(Conversation(plot._replace(guards=ALL - {guard.name})), until=bool)
    print(report)
    assert report.broken
