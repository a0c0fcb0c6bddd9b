"""docs/reliability.md names what proves it, and nothing that is not there: on the project, and on samples that must fail."""

import pytest

from tests.rules.files import project_files, read
from tests.rules.reliability_rules import Named, all_in, command_faults, entry_faults, name_faults

PAGE = "docs/reliability.md"
URL = "https://github.com/some/one/issues/7"
GOOD = f"| B007 | [some/one#7]({URL}) | it goes on | `tests/a.py::test_B007_it_goes_on` |"
TESTS = {Named("tests/a.py", ""), Named("tests/a.py", "test_B007_it_goes_on")}


def all_tests() -> set[Named]:
    return all_in({path: read(path) for path in project_files(".py") if path.startswith("tests/")})


def test_every_test_that_the_page_names_is_there() -> None:
    faults = name_faults(read(PAGE), all_tests())
    assert not faults, "\n".join(faults)


def test_every_entry_has_its_proof_and_every_numbered_test_its_entry() -> None:
    faults = entry_faults(read(PAGE), all_tests())
    assert not faults, "\n".join(faults)


def test_every_command_of_the_page_is_there() -> None:
    assert not command_faults(read(PAGE), read("Makefile"))


def test_tests_are_found_in_their_files() -> None:
    text = "async def test_B007_it_goes_on() -> None: ...\ndef other() -> None: ...\n"
    assert all_in({"tests/a.py": text}) == TESTS


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("issues/7", "issues/8", "is not some/one#7"),
        ("`tests/a.py::test_B007_it_goes_on`", "nothing to see", "no test"),
        ("`tests/a.py::test_B007_it_goes_on`", "Cannot occur: there is none", "not in the row of B007"),
        ("| B007 |", "| B008 |", "of another one"),
        ("[some/one#7]", "some/one#7", "not `| B001"),
        (GOOD, "", "not in the row of B007"),
        (GOOD, f"{GOOD}\n{GOOD}", "two rows"),
    ],
)
def test_the_rule_of_entries_can_fail(old: str, new: str, says: str) -> None:
    assert not entry_faults(GOOD, TESTS)
    assert says in "\n".join(entry_faults(GOOD.replace(old, new), TESTS))


def test_the_other_rules_can_fail() -> None:
    assert not name_faults(GOOD, TESTS)
    assert name_faults(GOOD, set())
    assert name_faults("see `tests/b.py`", TESTS)
    assert not command_faults("`make model`", "model: x\n")
    assert command_faults("`make nothing`", "model: x\n")
