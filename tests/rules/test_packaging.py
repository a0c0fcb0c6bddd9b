"""What is installed: the lock fits the project and comes from the public index; the wheel has everything and nothing else."""

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.rules.files import ROOT, project_files, read

INDEX = "https://pypi" + ".org/simple"
FILES = "https://files.python" + "hosted.org/"


def requirements(project: dict[str, Any]) -> set[str]:
    """The names of all packages that pyproject.toml asks for, in every extra and group."""
    lists = [
        project["project"]["dependencies"],
        *project["project"]["optional-dependencies"].values(),
        *project["dependency-groups"].values(),
    ]
    asked = {re.split(r"[\[<>=!~; ]", item)[0] for items in lists for item in items if isinstance(item, str)}
    return {name.lower().replace("_", "-") for name in asked}


def lock_faults(project: dict[str, Any], lock: dict[str, Any]) -> list[str]:
    """What in the lock is missing, or comes from a place that others cannot reach."""
    names = {package["name"] for package in lock["package"]}
    faults = [f"{name} is not locked: run make lock" for name in sorted(requirements(project) - names)]
    for package in lock["package"]:
        source = package["source"]
        if source not in ({"editable": "."}, {"registry": INDEX}):
            faults.append(f"{package['name']} comes from {source}")
        urls = [
            item["url"] for item in [*package.get("wheels", []), *([package["sdist"]] if "sdist" in package else [])]
        ]
        faults += [f"{package['name']} is fetched from {url}" for url in urls if not url.startswith(FILES)]
    return faults


def test_the_lock_fits_the_project_and_comes_from_the_public_index() -> None:
    faults = lock_faults(tomllib.loads(read("pyproject.toml")), tomllib.loads(read("uv.lock")))
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('name = "msgspec"', 'name = "messagespec"'),
        (INDEX, "https://mirror.example/simple"),
        (FILES, "https://mirror.example/"),
    ],
)
def test_the_rule_of_the_lock_can_fail(old: str, new: str) -> None:
    text = read("uv.lock")
    assert old in text
    assert lock_faults(tomllib.loads(read("pyproject.toml")), tomllib.loads(text.replace(old, new)))


def test_the_wheel_has_every_file_of_both_packages_and_the_licence(tmp_path: Path) -> None:
    build = "import os; from hatchling.build import build_wheel; print(build_wheel(os.environ['OUT']))"
    subprocess.run(
        [sys.executable, "-c", build], cwd=ROOT, env={"OUT": str(tmp_path), "PATH": "/usr/bin:/bin"}, check=True
    )
    (wheel,) = tmp_path.glob("reachmq-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        inside = {name for name in archive.namelist() if ".dist-info/" not in name}
        entry_points = archive.read(
            next(name for name in archive.namelist() if name.endswith("entry_points.txt"))
        ).decode()
        metadata = archive.read(next(name for name in archive.namelist() if name.endswith("/METADATA"))).decode()
    expected = {path for path in project_files() if path.startswith("reach/")}
    expected |= {path.removeprefix("workers/") for path in project_files() if path.startswith("workers/reach_worker/")}
    demo = "examples/helpdesk/"
    expected |= {f"reach/cli/bundle/{path}" for path in project_files() if path.startswith(demo)}
    assert inside == expected
    assert {"reach/py.typed", "reach_worker/py.typed"} <= inside
    assert set(entry_points.strip().splitlines()) == {
        "[console_scripts]",
        "reach = reach.cli:main",
        "reachmq = reach.cli:main",
        "reach-worker = reach_worker.__main__:main",
    }
    assert "License-Expression: Apache-2.0" in metadata
    assert "Requires-Python: >=3.11" in metadata


def test_pre_commit_runs_what_ci_runs() -> None:
    assert "entry: make check" in read(".pre-commit-config.yaml")
    assert "make check" in read(".ci/run")
