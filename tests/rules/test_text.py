"""File length, names, words, Lua headers and the changelog: on the project, and on samples that must fail."""

import tomllib

import pytest

from tests.rules.files import project_files, read
from tests.rules.text_rules import changelog_faults, lua_error_faults, lua_faults, name_faults, size_faults, word_faults

TEXTS = (
    ".py",
    ".lua",
    ".md",
    ".toml",
    ".yaml",
    ".yml",
    ".sh",
    ".js",
    ".html",
    ".css",
    "Makefile",
    "run",
    "uv.lock",
    ".jsonl",
)
GOOD_LUA = """#!lua flags=allow-oom
-- Does one step.
-- KEYS due zset the moments
-- ARGV msg_id id which
-- RETURNS 1
-- REPEAT the same
return ARGV[1]
"""


def test_no_file_is_too_long() -> None:
    faults = [fault for path in project_files(".py", ".lua") for fault in size_faults(path, read(path))]
    assert not faults, "\n".join(faults)


def test_every_name_says_something() -> None:
    faults = [fault for path in project_files() for fault in name_faults(path)]
    assert not faults, "\n".join(faults)


def test_no_word_that_must_not_be_there() -> None:
    faults = [fault for path in project_files(*TEXTS) for fault in word_faults(path, read(path))]
    assert not faults, "\n".join(faults)


def test_every_script_has_its_header() -> None:
    faults = [fault for path in project_files(".lua") for fault in lua_error_faults(path, read(path))]
    faults += [
        fault for path in project_files(".lua") if "#!lua" in read(path) for fault in lua_faults(path, read(path))
    ]
    assert not faults, "\n".join(faults)


def test_the_changelog_is_kept() -> None:
    version = tomllib.loads(read("pyproject.toml"))["project"]["version"]
    assert not changelog_faults(read("CHANGELOG.md"), version)


@pytest.mark.parametrize(
    ("path", "lines", "bad"), [("a.py", 401, True), ("a.py", 400, False), ("a.lua", 81, True), ("a.lua", 80, False)]
)
def test_the_rule_of_length_can_fail(path: str, lines: int, bad: bool) -> None:
    assert bool(size_faults(path, "x = 1\n" * lines)) is bad


@pytest.mark.parametrize(
    ("path", "bad"),
    [
        ("reach/utils.py", True),
        ("reach/core/x.py", True),
        ("tests/helpers.py", True),
        ("reach/base.py", True),
        ("reach/codec.py", False),
        ("reach/model/x.py", True),
        ("tests/model/utils.py", True),
        ("tests/model/x.py", False),
    ],
)
def test_the_rule_of_names_can_fail(path: str, bad: bool) -> None:
    assert bool(name_faults(path)) is bad


@pytest.mark.parametrize(
    ("text", "bad"),
    [
        ("see /wor" + "k/main", True),
        ("see ../share" + "d/bench", True),
        ("# TO" + "DO later", True),
        ("exactly" + " once", True),
        ("https://pypi" + ".org/simple", True),
        ("the artwork/main, a shared memory", False),
        ("todos are fine", False),
    ],
)
def test_the_rule_of_words_can_fail(text: str, bad: bool) -> None:
    assert bool(word_faults("README.md", text)) is bad


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("#!lua", "--", "does not start"),
        ("-- KEYS due zset the moments\n", "", "KEYS"),
        ("-- ARGV msg_id id which\n", "", "ARGV"),
        ("-- RETURNS 1\n", "", "RETURNS"),
        ("-- REPEAT the same\n", "-- REPEAT\n", "REPEAT"),
    ],
)
def test_the_rule_of_headers_can_fail(old: str, new: str, says: str) -> None:
    assert not lua_faults("a.lua", GOOD_LUA)
    assert says in "\n".join(lua_faults("a.lua", GOOD_LUA.replace(old, new)))


def test_the_rule_of_lua_errors_can_fail() -> None:
    assert not lua_error_faults("a.lua", "return redis.error_reply('REACH_FULL inbox')")
    assert lua_error_faults("a.lua", "return redis.error_reply('FULL')")


@pytest.mark.parametrize(
    ("text", "bad"),
    [
        ("# Changelog\n\n## [Unreleased]\n\n### Added\n", False),
        ("# Changelog\n\n## [1.0.0] - 2026-11-29\n\n### Fixed\n", False),
        ("# Changes\n\n## [Unreleased]\n", True),
        ("# Changelog\n\n## [0.9.0]\n", True),
        ("# Changelog\n\n## [Unreleased]\n\n### Improved\n", True),
    ],
)
def test_the_rule_of_the_changelog_can_fail(text: str, bad: bool) -> None:
    assert bool(changelog_faults(text, "1.0.0")) is bad
