"""What docs/reliability.md must say: every test that it names is there, and every test that carries an entry's number is named."""

import ast
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

#: `path::name`, or a path alone
_NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")
_ROW = re.compile(r"\| (B\d+) \| \[([\w.-]+/[\w.-]+)#(\d+)\]\((\S+)\) \| (\S.*) \| (\S.*) \|")
_NUMBERED = re.compile(r"test_(B\d{3})_")
_MADE = re.compile(r"`make (\w+)")


class Named(NamedTuple):
    """A test as the page names it. `name` "": the whole file."""

    path: str
    name: str


def all_in(sources: Mapping[str, str]) -> set[Named]:
    """The tests of these files, with the files themselves."""
    found = {Named(path, "") for path in sources}
    for path, text in sources.items():
        for node in ast.parse(text, path).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                found.add(Named(path, node.name))
    return found


def named_in(text: str) -> set[Named]:
    """The tests that a text names."""
    return {Named(path, name) for path, name in _NAMED.findall(text)}


def name_faults(page: str, tests: set[Named]) -> list[str]:
    """What the page names is there."""
    return [f"{test.path}::{test.name}: named in the page, and not there" for test in sorted(named_in(page) - tests)]


def entry_faults(page: str, tests: Iterable[Named]) -> list[str]:
    """Each entry has one row with its report, and its tests or the reason why it cannot occur; its tests all stand there."""
    faults: list[str] = []
    rows: dict[str, str] = {}
    for line in page.splitlines():
        if not line.startswith("| B"):
            continue
        row = _ROW.fullmatch(line)
        if row is None:
            faults.append(f"{line[:60]}: not `| B001 | [owner/name#1](https://...) | what is right | proof |`")
            continue
        entry, repository, number, url, _, proof = row.groups()
        if entry in rows:
            faults.append(f"{entry}: has two rows")
        rows[entry] = proof
        if url not in {f"https://github.com/{repository}/{kind}/{number}" for kind in ("issues", "pull")}:
            faults.append(f"{entry}: {url} is not {repository}#{number}")
        if not named_in(proof) and not proof.startswith("Cannot occur: "):
            faults.append(f"{entry}: no test, and no `Cannot occur: ...`")
        for test in named_in(proof):
            numbered = _NUMBERED.match(test.name)
            if numbered and numbered[1] != entry:
                faults.append(f"{entry}: names the test of another one, {test.name}")
    for test in sorted(tests):
        numbered = _NUMBERED.match(test.name)
        if numbered and test not in named_in(rows.get(numbered[1], "")):
            faults.append(f"{test.path}::{test.name}: not in the row of {numbered[1]}")
    return faults


def command_faults(page: str, makefile: str) -> list[str]:
    """Every `make` target of the page is there."""
    targets = set(re.findall(r"^(\w+):", makefile, re.MULTILINE))
    return [f"make {target}: no such target" for target in sorted(set(_MADE.findall(page)) - targets)]
