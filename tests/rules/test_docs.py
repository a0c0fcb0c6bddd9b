"""The reference pages say what the code does: keys, codes, settings, the public API."""

import pytest

import reach
from reach import settings
from reach.backend.keys import TABLE, Row
from reach.envelope import codes
from tests.rules.docs_rules import code_faults, docstring_faults, key_faults, setting_faults, settings_in
from tests.rules.files import ROOT, project_files, read
from tests.rules.reference import PAGES


def sources() -> dict[str, str]:
    return {path: read(path) for path in project_files(".py", ".lua") if path.startswith(("reach/", "workers/"))}


@pytest.mark.parametrize("path", PAGES)
def test_a_page_that_is_made_from_a_table_is_up_to_date(path: str) -> None:
    assert read(path) == PAGES[path](), "run: make docs"


def test_every_key_has_a_lifetime_and_stands_in_the_page() -> None:
    assert not key_faults(TABLE, read("docs/keys.md"))


def test_every_setting_stands_in_the_page_and_no_other() -> None:
    faults = setting_faults(sources(), (line.variable for line in settings.TABLE), read("docs/settings.md"))
    assert not faults, "\n".join(faults)


def test_every_code_that_the_product_names_is_in_the_table() -> None:
    python = {path: text for path, text in sources().items() if path.endswith(".py")}
    faults = code_faults((line.code for line in codes.TABLE), python)
    assert not faults, "\n".join(faults)


def test_the_public_api_is_the_one_that_was_agreed() -> None:
    """Who changes the list changes what users may build on: say it in the changelog."""
    agreed = (ROOT / "tests/rules/public_api.txt").read_text().split()
    assert sorted(getattr(reach, "__all__", [])) == agreed


def test_everything_public_is_documented() -> None:
    faults = [fault for name in getattr(reach, "__all__", []) for fault in docstring_faults(name, getattr(reach, name))]
    assert not faults, "\n".join(faults)


def test_each_rule_can_fail() -> None:
    row = Row("x", "reach:{E}:x", ("hash",), ttl=False, lifetime="permanent", writer="admin")
    page = "| `reach:{E}:x` | hash |"
    assert not key_faults([row], page)
    assert key_faults([row._replace(lifetime=" ")], page)
    assert key_faults([row], "")
    assert key_faults([row], page + page)

    code = {
        "reach/a.py": "x = 'REACH_URL', 'REACH_FULL', 'REACH_URL is'",
        "reach/lua/a.lua": "error_reply('REACH_FULL')",
    }
    assert settings_in(code) == {"REACH_URL"}
    assert not setting_faults(code, ["REACH_ENV"], "| `REACH_URL` | `REACH_ENV` |")
    assert setting_faults(code, ["REACH_ENV"], "| `REACH_URL` |")
    assert setting_faults(code, [], "REACH_URL")
    assert setting_faults(code, [], "`REACH_URL` `REACH_OLD`")

    told = ["route.not_found", "auth.*"]
    assert not code_faults(
        told, {"a.py": "f(code='route.not_found'); Finish('route.not_found'); f(code='config.x'); x = 'route.matched'"}
    )
    assert code_faults(told, {"a.py": "f(code='auth.x')"})
    assert code_faults(told, {"a.py": "raise a.EnvelopeError('route.missing', 'text')"})
    assert code_faults(told, {"a.py": "f(code='route.not_found' if x else 'route.missing')"})
    assert code_faults(told, {"a.py": "f(code='route.missing')"})
    assert code_faults(told, {"a.py": "class A:\n    default_code = 'timeout.all'"})

    class Public:
        """Says it."""

        def silent(self) -> None: ...

        @property
        def told(self) -> int:
            """Says it."""
            return 1

    assert docstring_faults("Public", Public) == ["Public.silent: has no docstring"]
    assert docstring_faults("f", lambda: None) == ["f: has no docstring"]
