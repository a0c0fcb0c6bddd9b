"""Where tests take turns on the engines, each runs on one of them, and in so many runs on all."""

import pytest

from tests.servers import has_its_turn

ENGINES = ("redis", "valkey")
TESTS = [f"tests/test_a.py::test_{number}" for number in range(40)]


def on(turn: str) -> dict[str, list[str]]:
    environ = {"REACH_TEST_TURN": turn}
    return {test: [engine for engine in ENGINES if has_its_turn(test, engine, ENGINES, environ)] for test in TESTS}


def test_without_turns_a_test_runs_on_every_engine() -> None:
    assert all(has_its_turn(TESTS[0], engine, ENGINES, {}) for engine in ENGINES)


@pytest.mark.parametrize("turn", [0, 7])
def test_with_them_on_one_and_the_next_time_on_the_other(turn: int) -> None:
    now, then = on(str(turn)), on(str(turn + 1))
    assert all(sorted(now[test] + then[test]) == sorted(ENGINES) for test in TESTS)
    assert all(len(engines) == 1 for engines in now.values())
    assert {engine for engines in now.values() for engine in engines} == set(ENGINES)
