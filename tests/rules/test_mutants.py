"""The table fits the code and the model: a mutant that no longer applies, or a guard without one, is seen before they are run."""

from collections import Counter
from pathlib import Path

import pytest

from tests.model import (
    bounds,
    circuit,
    conversation,
    guards,
    lease_clock,
    lines,
    once_guard,
    requeue,
    rooms,
    silence,
    stages,
)
from tests.mutants import (
    choosing,
    conversations,
    counting,
    fallback,
    following,
    instances,
    recorded,
    registration,
    schemas,
)
from tests.mutants import rooms as room_mutants
from tests.mutants.__main__ import share_of
from tests.mutants.mutant import Mutant
from tests.mutants.run import Failure, Outcome, verdict_of
from tests.mutants.table import MUTANTS
from tests.rules.files import ROOT

#: A grace that a jump has made longer: each does the other's work, and the mutant `future` is without both.
PAIR = {"clamp"}
TREE = Path("/tree")
MUTANT = Mutant("lua:hand", "hand", "a.lua", "if L.h ~= h then", "if false then", "tests/test_a.py::test_a")


def failed(error: str, where: str, text: str = "") -> Outcome:
    return Outcome(1, 1, (Failure("tests/test_a.py::test_a", error, where, text),), 1.0, "")


def test_every_mutant_applies_and_its_test_is_there() -> None:
    faults = [fault for mutant in MUTANTS for fault in mutant.faults(ROOT)]
    assert not faults, "\n".join(faults)


def test_every_mutant_in_python_is_python() -> None:
    for mutant in MUTANTS:
        if mutant.file.endswith(".py"):
            compile(mutant.applied((ROOT / mutant.file).read_text()), mutant.name, "exec")


def test_no_two_have_the_same_name_or_do_the_same() -> None:
    assert [name for name, count in Counter(mutant.name for mutant in MUTANTS).items() if count > 1] == []
    changes = Counter((mutant.file, mutant.old, mutant.new) for mutant in MUTANTS)
    assert [change for change, count in changes.items() if count > 1] == []


def test_in_so_many_turns_every_mutant_is_run() -> None:
    turns = [share_of(MUTANTS, 4, turn, frozenset()) for turn in range(2, 6)]
    assert sorted(m.name for turn in turns for m in turn) == sorted(m.name for m in MUTANTS)
    assert max(map(len, turns)) - min(map(len, turns)) <= 1


@pytest.mark.parametrize("changed", [MUTANTS[1].file, MUTANTS[1].test.partition("::")[0]])
def test_what_has_changed_is_run_in_every_turn(changed: str) -> None:
    assert all(MUTANTS[1] in share_of(MUTANTS, 4, turn, frozenset({changed})) for turn in range(4))


def test_every_guard_of_the_model_is_removed_by_one() -> None:
    models = (guards, lease_clock, conversation, bounds, circuit, lines, once_guard, requeue, rooms, silence, stages)
    beside = (
        conversations.GUARDS
        | schemas.GUARDS
        | fallback.GUARDS
        | choosing.GUARDS
        | instances.GUARDS
        | registration.GUARDS
        | recorded.GUARDS
        | following.GUARDS
        | counting.GUARDS
        | room_mutants.GUARDS
    )
    wanted = frozenset[str]().union(*(model.ALL for model in models)) - PAIR | beside
    removed = {mutant.guard for mutant in MUTANTS}
    assert wanted - removed == set(), "guards without a mutant"
    assert removed - wanted == set(), "mutants of what is no guard of the model"


@pytest.mark.parametrize("place", ["lua", "memory"])
def test_both_backends_lose_the_same_guards(place: str) -> None:
    """The memory backend is the specification that can be read: what is a guard in one is a guard in the other."""
    other = {"lua": "memory", "memory": "lua"}[place]
    both = {each: {m.guard for m in MUTANTS if m.place == each} for each in (place, other)}
    assert both[place] - both[other] == set()


def test_a_text_that_is_not_there_once_is_an_error() -> None:
    assert MUTANT.applied("x\nif L.h ~= h then\ny") == "x\nif false then\ny"
    for text in ("", "if L.h ~= h then if L.h ~= h then"):
        with pytest.raises(ValueError, match="not once"):
            MUTANT.applied(text)


@pytest.mark.parametrize(
    ("outcome", "caught"),
    [
        (failed("AssertionError", "/tree/tests/test_a.py"), True),
        (failed("ValueError", "/tree/tests/contract/drive.py"), True),
        (failed("Failed", "/tree/reach/x.py", "Timeout (>20.0s) from pytest-timeout."), True),
        (failed("AssertionError", "/tree/reach/x.py"), False),
        (failed("ScriptFailed", "/tree/reach/x.py"), False),
        (failed("SyntaxError", "/tree/reach/x.py"), False),
        (failed("AssertionError", "/tree/tests/test_a.py", "Error compiling script (new function)"), False),
        (Outcome(0, 1, (), 1.0, "passed"), False),
        (Outcome(5, 0, (), 1.0, "no tests ran"), False),
        (Outcome(2, 0, (), 1.0, "error during collection"), False),
    ],
)
def test_only_what_a_test_says_counts(outcome: Outcome, caught: bool) -> None:
    verdict = verdict_of(MUTANT, outcome, TREE)
    assert (verdict.caught_by != "", verdict.fault == "") == (caught, caught)


def test_what_a_guard_keeps_from_being_raised_counts_where_the_mutant_says_so() -> None:
    outcome = failed("ScriptFailed", "/tree/reach/x.py")
    assert verdict_of(MUTANT._replace(raises="ScriptFailed"), outcome, TREE).caught_by
