"""Imports go down only: the contracts of pyproject.toml hold, and each of them can be broken."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.rules.files import ROOT, read

CONTRACTS = "# ----------------------------------------------------------------"


def lint_imports(folder: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [
            sys.executable,
            "-c",
            "from importlinter.cli import lint_imports_command; lint_imports_command()",
            "--no-cache",
        ],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{folder / 'workers'}", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


def contracts() -> str:
    """The import-linter part of pyproject.toml."""
    _, _, rest = read("pyproject.toml").partition("[tool.importlinter]")
    return "[tool.importlinter]" + rest.partition(CONTRACTS)[0]


def test_the_contracts_hold() -> None:
    result = lint_imports(ROOT)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("path", "text", "broken"),
    [
        ("reach/envelope/codec.py", "import reach.sdk.client", "Layers"),
        ("reach/ids.py", "from reach import envelope", "Layers"),
        ("reach/registry/reaper.py", "from reach.delivery import router", "Layers"),
        ("reach/somewhere/__init__.py", "", "Layers"),
        ("reach/sdk/client.py", "import reach_worker", "knows its worker"),
        ("workers/reach_worker/roles.py", "import reach.cli", "neighbours"),
        ("reach/routing/decide.py", "import asyncio", "does no I/O"),
        ("reach/delivery/retry.py", "from reach.backend import keys", "does no I/O"),
        ("reach/envelope/codec.py", "from reach.envelope import rules", "No cycles"),
        ("reach/envelope/codec.py", "from reach.ids import x", None),
    ],
)
def test_each_contract_can_be_broken(tmp_path: Path, path: str, text: str, broken: str | None) -> None:
    empty = (
        "reach/__init__.py",
        "reach/ids.py",
        "reach/cli/__init__.py",
        "reach/testing.py",
        "reach/sdk/__init__.py",
        "reach/sdk/client.py",
        "reach/delivery/__init__.py",
        "reach/delivery/router.py",
        "reach/delivery/states.py",
        "reach/delivery/retry.py",
        "reach/delivery/deadlines.py",
        "reach/routing/__init__.py",
        "reach/routing/decide.py",
        "reach/backend/__init__.py",
        "reach/backend/keys.py",
        "reach/registry/__init__.py",
        "reach/envelope/__init__.py",
        "workers/reach_worker/__init__.py",
    )
    samples = {**dict.fromkeys(empty, ""), "reach/envelope/rules.py": "from reach.envelope import codec", path: text}
    for name, content in {"pyproject.toml": contracts(), "reach/envelope/codec.py": "", **samples}.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    result = lint_imports(tmp_path)
    assert result.returncode == (0 if broken is None else 1), result.stdout + result.stderr
    if broken is not None:
        assert broken in result.stdout + result.stderr
        assert "BROKEN" in result.stdout or "not listed" in result.stdout, result.stdout
