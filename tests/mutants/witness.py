"""A plugin of the runs under mutation: writes down which tests failed, and by what. Used with `-p tests.mutants.witness`."""

import json
import os
from pathlib import Path

import pytest

import reach
from tests.mutants.nursery import REPORT

_found: list[dict[str, str]] = []


def pytest_exception_interact(
    node: pytest.Item | pytest.Collector, call: pytest.CallInfo[object], report: pytest.TestReport
) -> None:
    """Note a failure: where it was raised, and what was said."""
    assert call.excinfo is not None
    error = call.excinfo.value
    where = call.excinfo.traceback[-1].path
    _found.append({"test": node.nodeid, "error": type(error).__name__, "where": str(where), "text": str(error)[:2000]})


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand the notes over, with the place of the package that was tested: an installed one may not come first."""
    told = {"reach": reach.__file__, "ran": session.testscollected, "failures": _found}
    Path(os.environ[REPORT]).write_text(json.dumps(told), encoding="utf-8")
