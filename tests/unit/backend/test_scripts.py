"""The loader of the Lua files: headers, parts, lengths, names by content."""

import hashlib
from collections.abc import Callable, Mapping

import pytest

from reach.backend import scripts
from reach.errors import ConfigError

HEADER = """#!lua flags=allow-oom,no-writes
-- Does something.
-- KEYS due key the one key
-- ARGV n integer how many
-- ARGV thing* bytes n of them
-- RETURNS a number
-- REPEAT the same
"""


def reader(files: Mapping[str, str]) -> Callable[[str], str]:
    def read(path: str) -> str:
        if path not in files:
            raise FileNotFoundError(path)
        return files[path]

    return read


def problems_of(source: str, **parts: str) -> list[str]:
    files = {"step.lua": source} | {f"parts/{name}.lua": text for name, text in parts.items()}
    with pytest.raises(ConfigError) as caught:
        scripts.parse("step", reader(files))
    return list(caught.value.details["problems"])


def test_a_step_is_read_with_all_that_its_header_says() -> None:
    step = scripts.parse("step", reader({"step.lua": HEADER + "return 1\n"}))
    assert (step.name, step.what) == ("step", "Does something.")
    assert step.flags == {"allow-oom", "no-writes"}
    assert [(key.name, key.type, key.what) for key in step.keys] == [("due", "key", "the one key")]
    assert [(arg.name, arg.type, arg.repeated) for arg in step.argv] == [
        ("n", "integer", False),
        ("thing", "bytes", True),
    ]
    assert (step.returns, step.again) == ("a number", "the same")


def test_parts_stand_where_they_are_included() -> None:
    files = {
        "step.lua": HEADER + "-- INCLUDE one\nlocal a = b\n-- INCLUDE two\nreturn a\n",
        "parts/one.lua": "local b = 1\n",
        "parts/two.lua": "a = a + 1\n",
    }
    text = scripts.parse("step", reader(files)).text
    assert text == HEADER + "local b = 1\nlocal a = b\na = a + 1\nreturn a\n"


def test_the_name_in_redis_is_the_hash_of_the_whole_text() -> None:
    files = {"step.lua": HEADER + "-- INCLUDE one\nreturn b\n", "parts/one.lua": "local b = 1\n"}
    step = scripts.parse("step", reader(files))
    other = scripts.parse("step", reader(files | {"parts/one.lua": "local b = 2\n"}))
    assert step.sha == hashlib.sha1(step.text.encode()).hexdigest()
    assert step.sha != other.sha


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (HEADER.replace("#!lua flags=allow-oom,no-writes\n", ""), "first line"),
        (HEADER.replace("#!lua flags=allow-oom,no-writes", "#!lua flags="), "first line"),
        (HEADER.replace("allow-oom", "allow-all"), "unknown flag allow-all"),
        (HEADER.replace("-- Does something.\n", ""), "second line"),
        (HEADER.replace("-- KEYS due key the one key\n", ""), "no KEYS line"),
        (HEADER.replace("-- RETURNS a number\n", ""), "no RETURNS line"),
        (HEADER.replace("-- REPEAT the same\n", ""), "no REPEAT line"),
        (HEADER.replace("-- KEYS due key the one key", "-- KEYS due text the one key"), "has the type text"),
        (HEADER.replace("-- ARGV n integer how many", "-- ARGV n key how many"), "has the type key"),
        (HEADER.replace("-- ARGV n integer how many", "-- ARGV n float how many"), "has the type float"),
        (HEADER.replace("-- ARGV n integer how many", "-- ARGV n integer"), "is not `-- ARGV name type what`"),
        (HEADER + "-- ARGV late integer an argument\n", "ARGV comes after REPEAT"),
        (HEADER + "-- INCLUDE nothing\n", "includes nothing, which is not there"),
        (HEADER + "return 1\n" * 80, "more than 80"),
        ("", "first line"),
    ],
)
def test_what_is_wrong_is_said(broken: str, said: str) -> None:
    assert any(said in problem for problem in problems_of(broken)), problems_of(broken)


def test_every_problem_is_said_at_once() -> None:
    assert len(problems_of("return 1\n")) >= 4


def test_a_part_that_is_too_long_or_included_twice_is_said() -> None:
    source = HEADER + "-- INCLUDE one\n-- INCLUDE one\n"
    problems = problems_of(source, one="-- x\n" * 81)
    assert any("parts/one.lua: 81 lines" in problem for problem in problems)
    assert any("includes one twice" in problem for problem in problems)


def test_every_step_of_the_package_is_whole() -> None:
    steps = scripts.all_scripts()
    assert {"route", "take", "settle", "due", "cancel", "register", "beat"} <= set(steps)
    assert all(step.text.startswith("#!lua") and "-- INCLUDE" not in step.text for step in steps.values())


def test_steps_that_free_memory_run_on_a_full_server() -> None:
    """PROTOCOL, section 5: settle, take, renew, due and cancel must be able to drain a full Redis."""
    steps = scripts.all_scripts()
    freeing = ("settle", "take", "renew", "due", "cancel", "finish", "once_end")
    assert all("allow-oom" in steps[name].flags for name in freeing)
    assert "allow-oom" not in steps["route"].flags


def test_a_step_declares_one_key() -> None:
    assert {len(step.keys) for step in scripts.all_scripts().values()} == {1}


def test_the_whole_text_is_public() -> None:
    assert scripts.composed("settle") == scripts.script("settle").text
    with pytest.raises(FileNotFoundError):
        scripts.composed("nothing")


def test_a_step_runs_by_hash_and_after_noscript_by_its_text() -> None:
    step = scripts.script("beat")
    assert scripts.command(step, "EVALSHA", "k", ("a", 1)) == ["EVALSHA", step.sha, 1, "k", "a", 1]
    assert scripts.command(step, "EVAL", "k", ()) == ["EVAL", step.text, 1, "k"]
